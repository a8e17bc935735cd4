"""The project of docs/tutorial.md, made of the page's own blocks of code."""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from devstack import paths

PAGE: Final = paths.ROOT / "docs" / "tutorial.md"
# A block that names a file is the file, or what comes at its end.
BLOCK: Final = re.compile(r'(?ms)^```\w+ title="(?P<name>[^"]+)"\n(?P<text>.*?)^```$')
TOPIC: Final = "shop.orders"
QUEUE: Final = "webshop-order"


def blocks(page: Path = PAGE) -> dict[str, str]:
    """The blocks of the page that are files, by their names."""
    return {block["name"]: block["text"] for block in BLOCK.finditer(page.read_text())}


def lay_out(folder: Path, environment: Mapping[str, str], python: str = sys.executable) -> None:
    """Make the project in an empty folder, as far as the page's topic: tables and all.

    `environment` is that of the page's shop.env; its database is there and empty.
    """
    run([python, "-m", "django", "startproject", "shop", "."], folder, environment)
    run([python, "manage.py", "startapp", "orders"], folder, environment)
    for name, text in blocks().items():
        file = folder / name
        before = file.read_text() if name.startswith("shop/") else ""
        file.write_text(before + text)
    manage = [python, "manage.py"]
    run([*manage, "makemigrations", "orders", "--verbosity", "0"], folder, environment)
    run([*manage, "migrate", "--verbosity", "0"], folder, environment)


def send(
    folder: Path, environment: Mapping[str, str], python: str, *orders: tuple[str, str, str]
) -> None:
    """Send orders with the page's own program: number, customer, total."""
    for order in orders:
        run([python, "send.py", *order], folder, environment)


def set_up(folder: Path, environment: Mapping[str, str], python: str) -> None:
    """Set the queue up by the page's file instead of the console."""
    text = blocks()["setup.yaml"]
    place = environment["SLUICE_KAFKA_BOOTSTRAP"]
    (folder / "setup.yaml").write_text(re.sub(r"(?<=bootstrap_servers: ).*", place, text))
    run([python, "manage.py", "config", "apply", "setup.yaml"], folder, environment)


@contextmanager
def a_copy_for_its_tests(url: str) -> Iterator[None]:
    """What Django's test runner finds and keeps: to migrate another takes ten seconds."""
    server, name = url.rsplit("/", 1)
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE test_{name} TEMPLATE {name}")
        yield
        connection.execute(f"DROP DATABASE test_{name} WITH (FORCE)")


def run(words: list[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Run a command to its end; returns what it printed."""
    done = subprocess.run(
        words, cwd=folder, env=dict(environment), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
