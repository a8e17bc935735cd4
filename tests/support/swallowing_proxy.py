"""A wire that can be made to swallow: connections stay open, and nothing of theirs arrives."""

import contextlib
import select
import socket
import threading
from typing import Final

CHUNK: Final = 65_536
LOOK_SECONDS: Final = 0.05


class SwallowingProxy:
    """Forwards connections to a port of this machine until `swallows` is set.

    `cut` and `say` are for a wire on which nothing is under way: what is said stands between two
    messages of the server, as if it had said that.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._over = threading.Event()
        self.swallows = threading.Event()
        # What sets it: bytes that pass by.
        self.begins_at = b""
        self._clients: list[socket.socket] = []
        # How many there were so far.
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(LOOK_SECONDS)
        self.port = int(self._listener.getsockname()[1])
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def close(self) -> None:
        self._over.set()
        self._listener.close()
        for thread in self._threads:
            thread.join(10)

    def cut(self) -> None:
        """End every connection."""
        while self._clients:
            with contextlib.suppress(OSError):
                self._clients.pop().shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """Send this to the client that came last, in the server's name."""
        self._clients[-1].sendall(data)

    def _accept(self) -> None:
        while not self._over.is_set():
            with contextlib.suppress(TimeoutError, OSError):
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        self._clients.append(client)
        self.connections += 1
        with client, contextlib.suppress(OSError):
            server = socket.create_connection(("127.0.0.1", self._to))
            with server:
                while not self._over.is_set():
                    ready, _, _ = select.select([client, server], [], [], LOOK_SECONDS)
                    for one, other in ((client, server), (server, client)):
                        if one in ready and not self._forward(one, other):
                            return

    def _forward(self, one: socket.socket, other: socket.socket) -> bool:
        data = one.recv(CHUNK)
        if self.begins_at and self.begins_at in data:
            self.swallows.set()
        if data and not self.swallows.is_set():
            other.sendall(data)
        return bool(data)
