"""Runs tools to their end, their output in logs that a problem can point at, and side by side."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from devstack import paths
from devstack.supervise import Command, carry_out

T = TypeVar("T")


def run(
    log_name: str,
    argv: Sequence[str | Path],
    *,
    folder: Path = paths.ROOT,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Run and tell whether it succeeded; `log_for(log_name)` holds what it said."""
    log = log_for(log_name)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    variables = {**os.environ, **(environment or {})}
    return carry_out(Command(argv=argv, environment=variables, folder=folder), log)


def log_for(name: str) -> Path:
    return paths.STACK / "setup" / f"{name}.log"


def said_by(program: str | Path, *options: str) -> str:
    """Everything that a program says when it is asked for its version; empty when it cannot say."""
    try:
        process = subprocess.run(
            [program, *options], capture_output=True, text=True, check=False, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return process.stdout + process.stderr


def side_by_side(tasks: Sequence[Callable[[], T]]) -> list[T]:
    """Do all at the same time; what each returned, in their order. Raises the first Problem."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        return [running.result() for running in [pool.submit(task) for task in tasks]]
