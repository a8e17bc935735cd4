"""Makes a small app with one handler to start from."""

import importlib.util
import keyword
from pathlib import Path
from string import Template
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from integration.handlers import registry
from sluice.settings import is_said_in

STARTER: Final = Path(registry.__file__).with_name("starter")
FILES: Final = {
    "apps.py": "apps.py.txt",
    "handlers.py": "handlers.py.txt",
    "migrations/0001_initial.py": "migration.py.txt",
    "models.py": "models.py.txt",
    "tests.py": "tests.py.txt",
}
NEXT: Final = """Made {folder}: one handler for {interface}, one table, two tests that pass.

What to do now, in the checkout and with the stack of `make run`:
  1. Install it; this also makes its table and starts the workers anew:
     SLUICE_INTEGRATIONS={installed} make run
  2. Run its tests:
     {python} manage.py test {name}
  3. Try it, without writing anything:
     echo '{{"number": "A-1", "description": "Pump"}}' | \
{python} manage.py try_handler {interface} -
  4. Make the enterprise service {interface} in the console, under Services.
Later starts keep the list. After a change of its code: make stop && make run
Without `make run`: set SLUICE_INTEGRATIONS={installed} for every process, run
`manage.py migrate`, and restart the workers.
{guide}
"""
PYTHON: Final = ".venv/bin/python -m devstack run"
NEXT_IN_A_PROJECT: Final = """Made {folder}: a handler for {interface}, a table, two passing tests.

What to do now:
  1. {install}
  2. Make its table, run its tests, and restart the workers:
     {python} manage.py migrate
     {python} manage.py test {name}
  3. Try it, without writing anything:
     echo '{{"number": "A-1", "description": "Pump"}}' | \
{python} manage.py try_handler {interface} -
  4. Make the enterprise service {interface} in the console, under Services.
{guide}
"""
GUIDE: Final = "What a handler may rely on: “Writing a handler” in the documentation."


class Command(BaseCommand):
    """`manage.py startintegration NAME`."""

    help = "Make an app with a handler, a table and passing tests to start an integration from."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="the app's name, a Python identifier in lower case")
        parser.add_argument("--interface", help="the INTERFACE its handler takes")
        parser.add_argument("--directory", default=".", help="where to put it (default: here)")

    def handle(self, *_: object, **options: Any) -> None:
        name: str = options["name"]
        folder = Path(options["directory"]) / name
        _check(name, folder)
        camel = "".join(part.capitalize() for part in name.split("_"))
        interface = options["interface"] or f"{camel}Interface"
        if any(handler.interface == interface for handler in registry.registry):
            raise CommandError(f"{interface} has a handler already; choose another --interface.")
        _write(folder, {"name": name, "camel": camel, "interface": interface})
        installed = ",".join([*settings.SLUICE_INTEGRATIONS, name])
        words = {"folder": folder, "interface": interface, "name": name, "guide": GUIDE}
        if settings.SLUICE_IS_GUEST:
            install = _how_to_install(name, installed)
            said = NEXT_IN_A_PROJECT.format(python="python", install=install, **words)
        else:
            said = NEXT.format(python=PYTHON, installed=installed, **words)
        self.stdout.write(said)


def _how_to_install(name: str, installed: str) -> str:
    """What the settings module says itself stands before the environment."""
    module: str = settings.SETTINGS_MODULE
    if is_said_in(module, "SLUICE_INTEGRATIONS"):
        return f'Add "{name}" to SLUICE_INTEGRATIONS in {module}.'
    return f"Set SLUICE_INTEGRATIONS={installed} for every process."


def _check(name: str, folder: Path) -> None:
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.lower():
        raise CommandError(f"{name!r} cannot be a package; use lower-case letters, digits and _.")
    if folder.exists():
        raise CommandError(f"{folder} exists already; nothing was changed.")
    if importlib.util.find_spec(name) is not None:
        raise CommandError(f"A Python package named {name} exists already; choose another name.")


def _write(folder: Path, words: dict[str, str]) -> None:
    (folder / "migrations").mkdir(parents=True)
    for empty in ("__init__.py", "migrations/__init__.py"):
        (folder / empty).touch()
    for target, source in FILES.items():
        text = (STARTER / source).read_text()
        (folder / target).write_text(Template(text).substitute(words))
