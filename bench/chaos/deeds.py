"""What goes wrong in the chaos run: each kind of fault, and what it hits."""

import random
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bench.chaos.proxy import Proxy
from bench.faults.deeds import (
    Choice,
    Deed,
    chosen,
    killing,
    killing_slot,
    restarting,
    stopping_slot,
    stopping_worker,
)
from bench.faults.processes import BEATS, RELAYS, WORKERS, Processes
from devstack.servers import Servers


@dataclass(frozen=True, slots=True)
class World:
    """Everything that faults can hit."""

    servers: Servers
    processes: Processes
    proxy: Proxy

    def choices(self) -> dict[str, Choice]:
        return {kind: made(self) for kind, made in DEEDS.items()}


def _resetting(proxy: Proxy) -> Choice:
    """Cut all connections to one of the servers behind the proxy."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        name = chosen(list(proxy.wires), chance, busy)
        return None if name is None else Deed(f"wire to {name}", lambda: proxy.reset(name))

    return choose


DEEDS: Final[Mapping[str, Callable[[World], Choice]]] = {
    "kill_worker": lambda world: killing(world.processes, WORKERS),
    "kill_slot": lambda world: killing_slot(world.processes),
    "kill_beat": lambda world: killing(world.processes, BEATS),
    "kill_relay": lambda world: killing(world.processes, RELAYS),
    "stop_worker": lambda world: stopping_worker(world.processes),
    "stop_slot": lambda world: stopping_slot(world.processes),
    "kafka_killed": lambda world: restarting(world.servers.kafka),
    "postgres_fast": lambda world: restarting(world.servers.postgres, signal.SIGINT),
    "postgres_immediate": lambda world: restarting(world.servers.postgres, signal.SIGQUIT),
    "valkey_restarted": lambda world: restarting(world.servers.valkey, signal.SIGTERM),
    "connections_reset": lambda world: _resetting(world.proxy),
}
