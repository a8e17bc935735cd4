"""A wire to PostgreSQL that breaks at one COMMIT: before it arrives, or before its answer does."""

import contextlib
import select
import socket
import threading
from enum import StrEnum
from typing import Final, Self
from urllib.parse import urlsplit

COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
CHUNK: Final = 65_536


class Break(StrEnum):
    """When the connection breaks."""

    BEFORE = "before"  # the server never hears of the commit
    AFTER = "after"  # it commits, and its answer never arrives


class LossyProxy:
    """Forwards connections on a port of its own; cuts the one that sends the NTH commit.

    Use as a context manager. `broken` is set once it has happened; everything after is forwarded.
    """

    def __init__(self, database_url: str, when: Break, nth: int) -> None:
        self._url = urlsplit(database_url)
        self._when = when
        self._left = nth
        self._counting = threading.Lock()
        self._over = threading.Event()
        self.broken = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept)]

    @property
    def url(self) -> str:
        port = self._listener.getsockname()[1]
        return self._url._replace(netloc=f"{self._url.username}@127.0.0.1:{port}").geturl()

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self) -> None:
        self._listener.settimeout(0.1)
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except (TimeoutError, OSError):
                continue
            thread = threading.Thread(target=self._serve, args=(client,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.create_connection((self._url.hostname, self._url.port))
        with client, server, contextlib.suppress(OSError):
            client.settimeout(10)
            while not self._over.is_set():
                ready, _, _ = select.select([client, server], [], [], 0.1)
                if client in ready and not self._from_client(client, server):
                    return
                if server in ready and not _forward(server, client):
                    return

    def _from_client(self, client: socket.socket, server: socket.socket) -> bool:
        sent = client.recv(CHUNK)
        if not sent:
            return False
        breaks = COMMIT in sent and self._is_the_one()
        if breaks and self._when is Break.BEFORE:
            self.broken.set()
            return False
        server.sendall(sent)
        if breaks:
            server.recv(CHUNK)  # CommitComplete: done, and nobody will know
            self.broken.set()
            return False
        return True

    def _is_the_one(self) -> bool:
        with self._counting:
            self._left -= 1
            return self._left == 0


def _forward(source: socket.socket, target: socket.socket) -> bool:
    received = source.recv(CHUNK)
    if received:
        target.sendall(received)
    return bool(received)
