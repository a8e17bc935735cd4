"""A connection as the threads see it: all of a request has come, and an answer is never waited for.

gunicorn reads requests from a socket and writes answers to it, in a thread that can do nothing
else meanwhile. Here both happen in memory; the line itself is the poller's.
"""

import errno
import select
import socket
import time
from contextlib import suppress
from typing import IO, Any, Final

from console.server.arriving import Ending
from console.server.limits import UNREAD_BYTES, UNREAD_SECONDS

PIECE_BYTES: Final = 64 * 1024


class BufferedSocket(socket.socket):
    """Takes over an accepted connection. Never blocks, whatever time limit is set on it.

    `ending` says why the request in hand ends where it does.
    """

    def __init__(self, accepted: socket.socket) -> None:
        super().__init__(fileno=accepted.detach())
        super().setblocking(False)
        self.ending = Ending.WHOLE
        self._given: IO[bytes] | None = None
        self._unsent = bytearray()

    # --- the poller's side ---

    def arrive(self) -> bytes:
        """Read the line; b"" at its end. Raises OSError, BlockingIOError when nothing came."""
        return super().recv(PIECE_BYTES)

    def give(self, request: IO[bytes], ending: Ending) -> None:
        """Let threads read that request, and nothing after it."""
        self._given, self.ending = request, ending

    def take_back(self) -> bool:
        """Drop the request in hand; return True when it was read to its end."""
        given, self._given = self._given, None
        if given is None:
            return True
        is_read = not given.read(1)
        given.close()
        return is_read

    @property
    def unsent(self) -> int:
        """The bytes of an answer that wait for the line."""
        return len(self._unsent)

    def flush(self) -> None:
        """Send what the line takes now. Raises OSError where it takes nothing any more."""
        while self._unsent:
            try:
                sent = super().send(self._unsent[: 4 * PIECE_BYTES])
            except BlockingIOError:
                return
            del self._unsent[:sent]

    # --- the threads' side ---

    def recv(self, size: int, flags: int = 0, /) -> bytes:  # noqa: ARG002 - the socket's own
        return b"" if self._given is None else self._given.read(size)

    def sendall(self, data: Any, flags: int = 0, /) -> None:  # noqa: ARG002 - the socket's own
        """Keep the answer for the line. Raises ConnectionResetError when nobody reads it."""
        if not self._unsent:
            with suppress(BlockingIOError):
                data = memoryview(data)[super().send(data) :]
        self._unsent += data
        ends = time.monotonic() + UNREAD_SECONDS
        while len(self._unsent) > UNREAD_BYTES:
            left = ends - time.monotonic()
            if left <= 0 or not select.select([], [self], [], left)[1]:
                raise ConnectionResetError(errno.ECONNRESET, "the answer was left unread")
            self.flush()

    def send(self, data: Any, flags: int = 0, /) -> int:  # noqa: ARG002 - the socket's own
        self.sendall(data)
        return len(data)

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """Copy a file to the line; the kernel's own way would wait for the reader."""
        file.seek(offset)
        left, sent = count, 0
        while piece := file.read(PIECE_BYTES if left is None else min(left, PIECE_BYTES)):
            self.sendall(piece)
            sent += len(piece)
            if left is not None:
                left -= len(piece)
        return sent

    def setblocking(self, flag: bool, /) -> None:
        """Stays as it is."""

    def settimeout(self, value: float | None, /) -> None:
        """Stays as it is."""
