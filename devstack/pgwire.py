"""Just enough of PostgreSQL's protocol to ask a trusting loopback server one question.

The set-up runs before any Python package is installed, and psql does not come with every server.
"""

import socket
import struct
from collections.abc import Callable

Read = Callable[[int], bytes]
TIMEOUT_SECONDS = 10.0
PROTOCOL = 3 << 16


class RefusedError(Exception):
    """The server answered with an error; the text is its own."""


def query(port: int, sql: str, *, database: str = "postgres", user: str = "postgres") -> list[str]:
    """Run one statement and return the first column of its rows.

    Raises OSError when nothing answers and RefusedError when the server says no.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
        words = [b"user", user.encode(), b"database", database.encode()]
        body = struct.pack("!i", PROTOCOL) + b"\0".join(words) + b"\0\0"
        connection.sendall(struct.pack("!i", len(body) + 4) + body)
        stream = connection.makefile("rb")
        try:
            _read_until_ready(stream.read)
            statement = sql.encode() + b"\0"
            connection.sendall(b"Q" + struct.pack("!i", len(statement) + 4) + statement)
            return _read_until_ready(stream.read)
        finally:
            stream.close()


def _read_until_ready(read: Read) -> list[str]:
    rows: list[str] = []
    while True:
        kind, body = _message(read)
        if kind == b"E":
            raise RefusedError(_error_text(body))
        if kind == b"R" and struct.unpack("!i", body[:4])[0] != 0:
            raise RefusedError("the server asks for a password")
        if kind == b"D":
            rows.append(_first_column(body))
        if kind == b"Z":
            return rows


def _message(read: Read) -> tuple[bytes, bytes]:
    head = read(5)
    if len(head) < 5:
        raise ConnectionResetError("the server closed the connection")
    return head[:1], read(struct.unpack("!i", head[1:])[0] - 4)


def _first_column(body: bytes) -> str:
    length = struct.unpack("!i", body[2:6])[0]
    return body[6 : 6 + max(length, 0)].decode()


def _error_text(body: bytes) -> str:
    fields = {part[:1]: part[1:] for part in body.split(b"\0") if part}
    return fields.get(b"M", b"an error without a text").decode(errors="replace")
