"""What may go wrong in a run: the kinds of faults, and how each is over again.

Which of them a run has, and how often, is its own to say.
"""

import contextlib
import os
import random
import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from bench.faults.processes import WORKERS, Processes
from devstack import proc
from devstack.errors import Problem
from devstack.server import Server

LONGEST_DOWN_SECONDS: Final = 3.0
STOPPED_SECONDS: Final = (1.0, 20.0)
# What a server that shuts down in an orderly way gets before it is killed.
GRACE_SECONDS: Final = 10.0
# A busy machine may need longer than a server's start waits for it.
START_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class Deed:
    """One fault: done, `seconds` later undone. Nothing else hits its target meanwhile."""

    target: str
    do: Callable[[], object]
    undo: Callable[[], object] = lambda: None
    seconds: float = 0.0


# Chooses a deed by chance, among targets that nothing hits just now; None when there is none.
Choice = Callable[[random.Random, Collection[str]], Deed | None]


def chosen(names: Collection[str], chance: random.Random, busy: Collection[str]) -> str | None:
    free = sorted(set(names) - set(busy))
    return chance.choice(free) if free else None


def killing(processes: Processes, names: Collection[str]) -> Choice:
    """SIGKILL for one of these and all its children; it is started again."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        name = chosen(names, chance, busy)
        if name is None:
            return None
        again = chance.uniform(0, LONGEST_DOWN_SECONDS)
        return Deed(name, processes.of(name).kill, lambda: processes.start(name), again)

    return choose


def stopping_worker(processes: Processes) -> Choice:
    """SIGSTOP for a worker and its pool, for a while."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        name = chosen(WORKERS, chance, busy)
        if name is None:
            return None
        process = processes.of(name)
        return Deed(name, process.pause, process.resume, chance.uniform(*STOPPED_SECONDS))

    return choose


def killing_slot(processes: Processes) -> Choice:
    """SIGKILL for one pool process of a worker, which makes another."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        slot = _slot(processes, chance, busy)
        return None if slot is None else Deed(slot[0], lambda: _signal(slot[1], signal.SIGKILL))

    return choose


def stopping_slot(processes: Processes) -> Choice:
    """SIGSTOP for one pool process of a worker, for a while."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        slot = _slot(processes, chance, busy)
        if slot is None:
            return None
        name, pid = slot
        born = proc.started(pid)

        def go_on() -> None:
            if proc.started(pid) == born:
                _signal(pid, signal.SIGCONT)

        seconds = chance.uniform(*STOPPED_SECONDS)
        return Deed(name, lambda: _signal(pid, signal.SIGSTOP), go_on, seconds)

    return choose


def restarting(server: Server, number: signal.Signals | None = None) -> Choice:
    """End a server, by a signal or like a crash, and start it again."""

    def choose(chance: random.Random, busy: Collection[str]) -> Deed | None:
        if server.name in busy:
            return None

        def end() -> None:
            if number is None:
                server.kill()
            else:
                server.process.stop(with_signal=number, grace_seconds=GRACE_SECONDS)

        again = chance.uniform(0, LONGEST_DOWN_SECONDS)
        return Deed(server.name, end, lambda: _start(server), again)

    return choose


def _slot(
    processes: Processes, chance: random.Random, busy: Collection[str]
) -> tuple[str, int] | None:
    name = chosen(WORKERS, chance, busy)
    pool = [] if name is None else processes.pool(name)
    return (f"{name} {pid}", pid) if pool and (pid := chance.choice(pool)) else None


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return  # It ended between our look and our signal.


def _start(server: Server) -> None:
    for _ in range(START_TRIES - 1):
        with contextlib.suppress(Problem):
            server.start()
            return
    server.start()
