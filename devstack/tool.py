"""Runs a tool to its end, its output in a log that a problem can point at."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack import paths


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
    with log.open("wb") as output:
        try:
            done = subprocess.run(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={**os.environ, **(environment or {})},
                check=False,
            )
        except OSError as error:
            output.write(f"{argv[0]}: {error}\n".encode())
            return False
    return done.returncode == 0


def log_for(name: str) -> Path:
    return paths.STACK / "setup" / f"{name}.log"
