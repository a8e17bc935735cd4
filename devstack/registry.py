"""Apicurio Registry: a schema registry with Confluent's API, run from the fetched archive.

It keeps its schemas in memory: a new start is a registry that was rebuilt.
"""

import os
import urllib.request
from pathlib import Path
from typing import ClassVar

from devstack import errors, java, paths, ports
from devstack.kafka import QUICK_START
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Command, Process

PORT_NAME = "registry"
JAR = "apicurio-registry-app-*-runner.jar"
API = "/apis/ccompat/v7"


class Registry(Server):
    """Listens on loopback, asks for no login, and accepts any next version until told otherwise."""

    name: ClassVar[str] = "registry"
    title: ClassVar[str] = "Schema registry"

    @property
    def url(self) -> str:
        """The address to enter at a provider."""
        return f"http://127.0.0.1:{self.port}{API}"

    @override
    def prepare(self) -> None:
        (self.folder / "registry").mkdir(parents=True, exist_ok=True)

    @override
    def command(self) -> Command:
        options = {"quarkus.http.host": "127.0.0.1", "quarkus.http.port": str(self.port)}
        return Command(
            argv=[
                java.find(),
                "-Xmx384m",
                *QUICK_START,
                "-Djava.awt.headless=true",
                *(f"-D{name}={value}" for name, value in options.items()),
                "-jar",
                program(),
            ],
            environment=os.environ,
            folder=self.folder / "registry",
        )

    @override
    def is_answering(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):  # noqa: S310 - our own
                return True
        except OSError:
            return False


def program() -> Path:
    """Find the fetched jar. Raises Problem NOT_SET_UP."""
    found = sorted((paths.FETCHED / "registry").glob(JAR))
    if not found:
        raise errors.not_set_up("The schema registry")
    return found[0]


def in_folder(folder: Path) -> Registry:
    """Describe the one that lives in `folder`, ready to be started; chooses its port."""
    alive = [PORT_NAME] if Process(Registry.name, folder).is_alive() else []
    assigned = ports.assign(folder / "ports.json", [PORT_NAME], running=alive)
    return Registry(folder, assigned[PORT_NAME], durable=False)


def as_left_in(folder: Path) -> Registry:
    """Describe the one that was started in `folder`, to ask after it or to stop it."""
    known = ports.known(folder / "ports.json", [PORT_NAME])
    return Registry(folder, known[PORT_NAME], durable=False)
