"""Places on this machine: the checkout, what was fetched, and what the running stack keeps."""

import os
import sys
import sysconfig
from pathlib import Path

from devstack import errors

ROOT = Path(__file__).resolve().parent.parent
FETCHED = ROOT / ".lib"
STACK = ROOT / ".devstack"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"


def cached(name: str) -> Path:
    """Return a folder of the user's cache: the next checkout finds there what this one left.

    Where the user has no folder that can be written to, it is the checkout's.
    """
    try:
        # RuntimeError: nobody knows a home of this user's.
        own = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = own / "sluice" / name
        folder.mkdir(parents=True, exist_ok=True)
        # Refused where the folder is another user's, as after a set-up by sudo.
        (folder / "lock").touch()
    except (OSError, RuntimeError):
        folder = FETCHED / name
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def in_packages(pattern: str) -> Path | None:
    """Find a file that an installed Python package carries, such as `pyspark/jars/ivy-*.jar`.

    Looks beside the running interpreter first, then in the checkout's own environment: the
    set-up runs under the machine's Python, which has no packages.
    """
    places = [Path(sysconfig.get_path("purelib")), *VENV.glob("lib/python3.*/site-packages")]
    for place in places:
        for file in sorted(place.glob(pattern)):
            return file
    return None


def python() -> Path:
    """Return the interpreter that has Sluice's packages: the checkout's, else the running one."""
    if VENV_PYTHON.exists():
        return VENV_PYTHON
    if in_packages("pyspark/jars/ivy-*.jar"):
        return Path(sys.executable)
    raise errors.not_set_up("The virtual environment")
