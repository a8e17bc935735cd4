"""A partner over HTTP: takes every post and counts message ids. `python -m bench.partner PORT MS`.

Each answer comes MS milliseconds after its request. `GET /` tells as JSON how many posts came
and how many ids; `DELETE /` forgets them; `PUT /down` and `PUT /up` let it answer 503 or not.
"""

import asyncio
import json
import sys
from typing import Any, Final, cast

ID: Final = b"idempotency-key"
END: Final = b"\r\n\r\n"


class Counts:
    """Arrivals since the last DELETE; `order` are the ids as they came first."""

    def __init__(self, latency_seconds: float) -> None:
        self.latency_seconds = latency_seconds
        self.posts = 0
        self.order: dict[str, None] = {}
        self.is_down = False

    def forget(self) -> None:
        self.posts = 0
        self.order = {}


class Connection(asyncio.Protocol):
    """One connection that is kept open; its requests are answered in turn."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.buffer = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, received: bytes) -> None:
        self.buffer += received
        while (request := self._next()) is not None:
            self._answer(*request)

    def _next(self) -> tuple[str, str, dict[bytes, bytes]] | None:
        head, end, rest = self.buffer.partition(END)
        if not end:
            return None
        first, *lines = head.split(b"\r\n")
        headers = {}
        for line in lines:
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        length = int(headers.get(b"content-length", b"0"))
        if len(rest) < length:
            return None
        self.buffer = rest[length:]
        method, path, _ = first.decode().split(" ")
        return method, path, headers

    def _answer(self, method: str, path: str, headers: dict[bytes, bytes]) -> None:
        counts, status, body = self.counts, 200, b""
        match method:
            case "POST" if counts.is_down:
                status = 503
            case "POST":
                counts.posts += 1
                counts.order.setdefault(headers.get(ID, b"").decode())
            case "DELETE":
                counts.forget()
            case "PUT":
                counts.is_down = path == "/down"
            case _:
                arrivals: dict[str, Any] = {"posts": counts.posts, "ids": len(counts.order)}
                arrivals |= {"order": list(counts.order)} if path == "/order" else {}
                body = json.dumps(arrivals).encode()
        answer = b"HTTP/1.1 %d OK\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body
        if method == "POST" and counts.latency_seconds:
            loop = asyncio.get_running_loop()
            loop.call_later(counts.latency_seconds, self.transport.write, answer)
        else:
            self.transport.write(answer)


async def serve(port: int, latency_seconds: float) -> None:
    """Answer on the loopback address until the process ends."""
    counts = Counts(latency_seconds)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(counts), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
