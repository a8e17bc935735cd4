"""Loopback ports: chosen once, remembered, and chosen again when a stranger has taken one."""

import json
import os
import random
import socket
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from devstack import errors, remembered

LOOPBACK = "127.0.0.1"
# Below the range from which Linux and macOS take ports for outgoing connections, so that no
# passing connection sits on a server's port between two starts.
CHOICES = range(20_000, 32_000)


# By this process; perhaps nobody listens there yet.
_chosen: set[int] = set()


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: old connections in TIME_WAIT do not make a port busy.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def choose(taken: Iterable[int] = ()) -> int:
    """Choose a free port at random, none of those `taken`, nor one that was chosen before."""
    avoided = {*taken, *_chosen}
    chance = random.SystemRandom()
    while True:
        port = chance.choice(CHOICES)
        if port not in avoided and is_free(port):
            _chosen.add(port)
            return port


def variable_for(name: str) -> str:
    """Name the environment variable that fixes the port of `name`.

    >>> variable_for("kafka-controller")
    'DEVSTACK_KAFKA_CONTROLLER_PORT'
    """
    return f"DEVSTACK_{name.upper().replace('-', '_')}_PORT"


def assign(
    file: Path,
    names: Collection[str],
    *,
    running: Collection[str] = (),
    preferred: Mapping[str, int] | None = None,
    variables: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Give each name its port and remember them in `file`.

    A port set by an environment variable is law and raises Problem PORT_BUSY when taken; a
    remembered or `preferred` one is given up for another when taken. Names in `running` are ours
    and keep what they have.
    """
    stored = _read(file)
    set_by_hand = os.environ if variables is None else variables
    preferences = {**(preferred or {}), **stored}
    ports: dict[str, int] = {}
    for name in names:
        variable = variable_for(name)
        if name in running and name in stored:
            ports[name] = stored[name]
        elif set_by_hand.get(variable, "").strip():
            ports[name] = _as_set(name, set_by_hand[variable], variable)
        elif (
            name in preferences
            and is_free(preferences[name])
            and preferences[name] not in ports.values()
        ):
            ports[name] = preferences[name]
        else:
            ports[name] = choose({*ports.values(), *preferences.values()})
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({**stored, **ports}, indent=1) + "\n")
    return ports


def known(file: Path, names: Collection[str]) -> dict[str, int]:
    """Return the ports that were assigned, 0 for a name that never was; changes nothing."""
    stored = _read(file)
    return {name: stored.get(name, 0) for name in names}


def _as_set(name: str, value: str, variable: str) -> int:
    if not value.strip().isdecimal() or not 0 < int(value) < 65_536:
        raise errors.Problem(
            "BAD_PORT", f"{variable} is {value!r}.", "Write a port number from 1 to 65535."
        )
    port = int(value)
    if not is_free(port):
        raise errors.Problem(
            "PORT_BUSY",
            f"Port {port}, set for {name} by {variable}, is taken by another program.",
            f"Stop that program, or unset {variable} and a free port is chosen.",
        )
    return port


def _read(file: Path) -> dict[str, int]:
    named = remembered.read(file).items()
    return {name: port for name, port in named if isinstance(port, int)}
