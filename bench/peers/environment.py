"""The environment of the other programs: their packages, pinned, made when it is first wanted."""

import shutil
from pathlib import Path
from typing import Final

from bench.rig import BenchmarkError
from devstack import environment, paths, stamps, tool

REQUIREMENTS: Final = paths.ROOT / "requirements-peers.txt"
FOLDER: Final = paths.FETCHED / "peers"


def python() -> Path:
    """Return the interpreter that has them. Raises BenchmarkError where they cannot be had."""
    stamp, wanted = FOLDER / "sluice.stamp", stamps.digest([REQUIREMENTS], str(FOLDER))
    found = FOLDER / "bin" / "python"
    if stamps.is_done(stamp, wanted):
        return found
    shutil.rmtree(FOLDER, ignore_errors=True)
    options = ["--require-hashes", "--python", str(found)]
    is_made = tool.run("peers", [paths.python(), "-m", "venv", "--without-pip", FOLDER])
    install: list[str | Path] = [environment.installer(), "pip", "sync", *options, REQUIREMENTS]
    if not (is_made and tool.run("peers", install)):
        raise BenchmarkError(
            f"their packages could not be installed (log: {tool.log_for('peers')})"
        )
    stamps.mark_done(stamp, wanted)
    return found
