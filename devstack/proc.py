"""Processes as the operating system knows them: who lives, since when, and whose child."""

import os
import subprocess
from pathlib import Path

PROC = Path("/proc")


def started(pid: int) -> str | None:
    """Tell when a process began, as an opaque mark; None when there is none, or only its zombie.

    The mark differs for every process that ever had this pid, also across a restart of the
    machine, so that pid and mark together name one process for good.
    """
    if not PROC.joinpath("self/stat").exists():
        return _started_by_ps(pid)
    fields = _stat(pid)
    if fields is None or fields[0] in "ZX":
        return None
    boot = PROC.joinpath("sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{fields[19]}"


def tree(pid: int) -> list[int]:
    """List a process and all its descendants, parents before children."""
    parents = _parents()
    pids = [pid]
    for ancestor in pids:
        pids += [child for child, parent in parents.items() if parent == ancestor]
    return pids


def reap(pid: int) -> None:
    """Collect the exit status of our own child, so that it does not stay as a zombie."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # Not our child: whoever started it collects it.


def _stat(pid: int) -> list[str] | None:
    try:
        text = PROC.joinpath(str(pid), "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold spaces and parentheses itself; state is the next field.
    return text.rpartition(")")[2].split()


def _parents() -> dict[int, int]:
    if not PROC.joinpath("self/stat").exists():
        rows = _ps("-axo", "pid=,ppid=").split("\n")
        return {int(pid): int(parent) for pid, parent in (row.split() for row in rows if row)}
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid)) is not None}


def _started_by_ps(pid: int) -> str | None:
    state, _, mark = _ps("-o", "state=,lstart=", "-p", str(pid)).strip().partition(" ")
    return mark.strip() if mark and not state.startswith("Z") else None


def _ps(*arguments: str) -> str:
    return subprocess.run(["ps", *arguments], capture_output=True, text=True, check=False).stdout
