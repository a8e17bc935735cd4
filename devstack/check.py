"""`make check`: every check that needs no server, one line each; all run, also after a failure."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from devstack import paths
from devstack.progress import line, say

PYTHON = str(paths.VENV_PYTHON)
# The checks import the settings; these have a harmless value for whatever the machine leaves out.
ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "tests.support.settings"}


# Title -> the Python arguments that run it.
CHECKS = {
    # The longest first: the others are done beside it.
    "Fast tests": ("-m", "pytest", "-m", "fast", "-q", "-n", "2", "--dist", "worksteal"),
    "Format": ("-m", "ruff", "format", "--check", "."),
    "Lint": ("-m", "ruff", "check", "."),
    "Types": ("-m", "mypy"),
    # Its module does nothing when run by name.
    "Imports": ("-c", "from importlinter.cli import lint_imports_command as c; c()"),
    # Without a server it cannot compare with the applied migrations and would warn of it.
    "Migrations": ("-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run"),
}


def main() -> int:
    """Run every check; 1 when one of them failed."""
    began = time.monotonic()
    with ThreadPoolExecutor(2) as two:
        passed = list(two.map(_passes, CHECKS))
    failed = [title for title, is_ok in zip(CHECKS, passed, strict=True) if not is_ok]
    summary = f"failed: {', '.join(failed)}" if failed else "all checks passed"
    say(f"{time.monotonic() - began:.0f} s; {summary}")
    return 1 if failed else 0


def _passes(title: str) -> bool:
    began = time.monotonic()
    done = subprocess.run(
        [PYTHON, *CHECKS[title]],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=paths.ROOT,
        env={**os.environ, **ENVIRONMENT, "MYPY_CACHE_DIR": str(paths.cached("mypy"))},
        check=False,
    )
    passed = done.returncode == 0
    output = done.stdout.strip()
    last_line = output.splitlines()[-1].strip("= ") if output else ""
    say(line("ok" if passed else "XX", title, time.monotonic() - began, last_line[:100]))
    if not passed:
        say(output)
    return passed


if __name__ == "__main__":
    sys.exit(main())
