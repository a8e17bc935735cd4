"""Processor time of both sides: unlike the clock, it does not count what other programs take.

On a machine that does nothing else the ratio of rates and the ratio of processor times agree;
where they differ, something else was running.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.rig import Rig
from devstack import proc
from devstack.supervise import Process

TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
SESSIONS: Final = """
SELECT pid FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


def seconds_of(pid: int) -> float:
    """User and system time of one process, 0 when it is gone."""
    return sum(_times(pid)[:2])


def with_ended_of(pid: int) -> float:
    """The same with that of its children that have ended."""
    return sum(_times(pid))


def parent_of(pid: int) -> int:
    """Raises OSError where the process is gone."""
    return int(_fields(pid)[1])


def _times(pid: int) -> list[float]:
    """User and system time, then those of the children that have ended: fields 14 to 17."""
    try:
        return [int(ticks) / TICKS_PER_SECOND for ticks in _fields(pid)[11:15]]
    except OSError:
        return []


def _fields(pid: int) -> list[str]:
    """What follows the name, which may hold spaces: from field 3 on. Raises OSError."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


class Used(NamedTuple):
    """Seconds of processor time: of Python, and of the database for it."""

    process: float
    session: float


class Meter:
    """Processor time of a worker's processes and of all sessions of its database, from now on."""

    def __init__(self, rig: Rig, worker: Process) -> None:
        self.rig = rig
        self.worker = worker
        self._before = self._now()

    def used(self) -> Used:
        family, sessions = self._now()
        return Used(_since(self._before[0], family), _since(self._before[1], sessions))

    def _now(self) -> tuple[dict[int, float], dict[int, float]]:
        family = proc.tree(self.worker.pid) if self.worker.pid else []
        sessions = [pid for (pid,) in self.rig.rows(SESSIONS)]
        return {pid: seconds_of(pid) for pid in family}, {pid: seconds_of(pid) for pid in sessions}


def _since(before: dict[int, float], now: dict[int, float]) -> float:
    return sum(used - before.get(pid, 0.0) for pid, used in now.items())


def as_facts(ours: Sequence[Used], theirs: Sequence[Used], messages: int) -> dict[str, object]:
    """Medians in microseconds per message, and what the ratio would be by processor time."""
    mine, other = _median(ours), _median(theirs)
    return {
        "cpu_us": [round(part / messages * 1e6, 1) for part in mine],
        "against_cpu_us": [round(part / messages * 1e6, 1) for part in other],
        "ratio_by_cpu": round(sum(other) / sum(mine), 3),
    }


def _median(runs: Sequence[Used]) -> Used:
    return Used(median(run.process for run in runs), median(run.session for run in runs))
