"""`make check`: every check that needs no server, one line each; all run, also after a failure."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from devstack import paths
from devstack.progress import line, say

PYTHON = str(paths.VENV_PYTHON)
# The checks import the settings; these have a harmless value for whatever the machine leaves out.
ENVIRONMENT = {"DJANGO_SETTINGS_MODULE": "tests.support.settings"}


@dataclass(frozen=True)
class Check:
    """One check and the Python arguments that run it."""

    title: str
    arguments: tuple[str, ...]


CHECKS = (
    # The longest first: the others are done beside it.
    Check("Fast tests", ("-m", "pytest", "-m", "fast", "-q", "-n", "2", "--dist", "worksteal")),
    Check("Format", ("-m", "ruff", "format", "--check", ".")),
    Check("Lint", ("-m", "ruff", "check", ".")),
    Check("Types", ("-m", "mypy")),
    # Its module does nothing when run by name.
    Check("Imports", ("-c", "from importlinter.cli import lint_imports_command as c; c()")),
    # Without a server it cannot compare with the applied migrations and would warn of it.
    Check(
        "Migrations",
        ("-W", "ignore", "manage.py", "makemigrations", "--check", "--dry-run"),
    ),
)


def main() -> int:
    """Run every check; 1 when one of them failed."""
    began = time.monotonic()
    with ThreadPoolExecutor(2) as two:
        passed = list(two.map(_passes, CHECKS))
    failed = [check.title for check, is_ok in zip(CHECKS, passed, strict=True) if not is_ok]
    say(f"{time.monotonic() - began:.0f} s; " + _summary(failed))
    return 1 if failed else 0


def _summary(failed: list[str]) -> str:
    return f"failed: {', '.join(failed)}" if failed else "all checks passed"


def _passes(check: Check) -> bool:
    began = time.monotonic()
    done = subprocess.run(
        [PYTHON, *check.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=paths.ROOT,
        env={**os.environ, **ENVIRONMENT},
        check=False,
    )
    passed = done.returncode == 0
    said = done.stdout.strip()
    last_line = said.splitlines()[-1].strip("= ") if said else ""
    say(line("ok" if passed else "XX", check.title, time.monotonic() - began, last_line[:100]))
    if not passed:
        say(said)
    return passed


if __name__ == "__main__":
    sys.exit(main())
