"""Apicurio Registry: a schema registry with Confluent's API, run from the fetched archive.

It keeps its schemas in memory: a new start is a registry that was rebuilt.
"""

import os
import urllib.request
from pathlib import Path
from typing import ClassVar

from devstack import errors, java, paths
from devstack.kafka import QUICK_START
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Command

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

    def told(self) -> str:
        return f"Schema registry: {self.url} (enter it at the provider)"

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
