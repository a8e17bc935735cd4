"""What a program of ours holds: memory, threads and open files, its children included."""

from pathlib import Path
from typing import Final, NamedTuple

from devstack import proc

KIBIBYTES: Final = 1_024


class Usage(NamedTuple):
    """Of one program and its children, in MiB.

    `memory` counts pages that are shared once, `resident` in each process: that does not grow as
    processes come to have copies of their own, of what was there when they were forked.
    """

    memory: float
    resident: float
    threads: int
    files: int


def usage_of(pid: int) -> Usage:
    """Ask Linux; a child that ends meanwhile counts as nothing."""
    pids = proc.tree(pid)
    return Usage(
        memory=sum(megabytes_of(pid)),
        resident=sum(_megabytes(each, "Rss:") or 0.0 for each in pids),
        threads=sum(_entries(each, "task") for each in pids),
        files=sum(_entries(each, "fd") for each in pids),
    )


def megabytes_of(pid: int) -> list[float]:
    """Pss of each process of the family: Linux's count in which shared pages are divided."""
    return [each for child in proc.tree(pid) if (each := _megabytes(child, "Pss:")) is not None]


def _megabytes(pid: int, name: str) -> float | None:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return None
    sizes = (line.split()[1] for line in text.splitlines() if line.startswith(name))
    return sum(map(int, sizes)) / KIBIBYTES


def _entries(pid: int, name: str) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/{name}").iterdir())
    except OSError:
        return 0
