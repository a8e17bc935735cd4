"""What may go wrong in the chaos run: each kind of fault, and how it is over again."""

import contextlib
import os
import random
import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from bench.chaos.processes import BEATS, RELAYS, WORKERS, Processes
from bench.chaos.proxy import Proxy
from devstack import proc
from devstack.errors import Problem
from devstack.server import Server
from devstack.servers import Servers

LONGEST_DOWN_SECONDS: Final = 3.0
STOPPED_SECONDS: Final = (1.0, 20.0)
# What a server that shuts down in an orderly way gets before it is killed.
GRACE_SECONDS: Final = 10.0
# A busy machine may need longer than a server's start waits for it.
START_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class World:
    """Everything that faults can hit."""

    servers: Servers
    processes: Processes
    proxy: Proxy


@dataclass(frozen=True, slots=True)
class Deed:
    """One fault: done, `seconds` later undone. Nothing else hits its target meanwhile."""

    target: str
    do: Callable[[], object]
    undo: Callable[[], object] = lambda: None
    seconds: float = 0.0


Choice = Callable[[World, random.Random, Collection[str]], Deed | None]


def _chosen(names: Collection[str], chance: random.Random, busy: Collection[str]) -> str | None:
    free = sorted(set(names) - set(busy))
    return chance.choice(free) if free else None


def _killing(*names: str) -> Choice:
    """SIGKILL for one of these and all its children; it is started again."""

    def choose(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
        name = _chosen(names, chance, busy)
        if name is None:
            return None
        again = chance.uniform(0, LONGEST_DOWN_SECONDS)
        processes = world.processes
        return Deed(name, processes.of(name).kill, lambda: processes.start(name), again)

    return choose


def _stop_worker(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
    name = _chosen(WORKERS, chance, busy)
    if name is None:
        return None
    process = world.processes.of(name)
    return Deed(name, process.pause, process.resume, chance.uniform(*STOPPED_SECONDS))


def _slot(world: World, chance: random.Random, busy: Collection[str]) -> tuple[str, int] | None:
    name = _chosen(WORKERS, chance, busy)
    pool = [] if name is None else world.processes.pool(name)
    return (f"{name} {pid}", pid) if pool and (pid := chance.choice(pool)) else None


def _kill_slot(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
    slot = _slot(world, chance, busy)
    return None if slot is None else Deed(slot[0], lambda: _signal(slot[1], signal.SIGKILL))


def _stop_slot(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
    slot = _slot(world, chance, busy)
    if slot is None:
        return None
    name, pid = slot
    born = proc.started(pid)

    def go_on() -> None:
        if proc.started(pid) == born:
            _signal(pid, signal.SIGCONT)

    seconds = chance.uniform(*STOPPED_SECONDS)
    return Deed(name, lambda: _signal(pid, signal.SIGSTOP), go_on, seconds)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # It ended between our look and our signal.


def _restarting(of: Callable[[Servers], Server], number: signal.Signals | None) -> Choice:
    """End a server, by a signal or like a crash, and start it again."""

    def choose(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
        server = of(world.servers)
        if server.name in busy:
            return None

        def end() -> None:
            if number is None:
                server.kill()
            else:
                server.process.stop(with_signal=number, grace_seconds=GRACE_SECONDS)

        return Deed(
            server.name, end, lambda: _start(server), chance.uniform(0, LONGEST_DOWN_SECONDS)
        )

    return choose


def _start(server: Server) -> None:
    for _ in range(START_TRIES - 1):
        with contextlib.suppress(Problem):
            server.start()
            return
    server.start()


def _reset(world: World, chance: random.Random, busy: Collection[str]) -> Deed | None:
    name = _chosen(list(world.proxy.wires), chance, busy)
    return None if name is None else Deed(f"wire to {name}", lambda: world.proxy.reset(name))


DEEDS: Final[Mapping[str, Choice]] = {
    "kill_worker": _killing(*WORKERS),
    "kill_slot": _kill_slot,
    "kill_beat": _killing(*BEATS),
    "kill_relay": _killing(*RELAYS),
    "stop_worker": _stop_worker,
    "stop_slot": _stop_slot,
    "kafka_killed": _restarting(lambda servers: servers.kafka, None),
    "postgres_fast": _restarting(lambda servers: servers.postgres, signal.SIGINT),
    "postgres_immediate": _restarting(lambda servers: servers.postgres, signal.SIGQUIT),
    "valkey_restarted": _restarting(lambda servers: servers.valkey, signal.SIGTERM),
    "connections_reset": _reset,
}
