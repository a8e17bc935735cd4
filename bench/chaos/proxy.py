"""A wire between Sluice's processes and a server: it can reset all connections, and be turned."""

import asyncio
import gc
import socket
import struct
import threading
import warnings
from functools import partial
from typing import Final, cast
from urllib.parse import urlsplit

from devstack import ports

# Closing with this sends RST: what was on its way is lost, at both ends.
AT_ONCE: Final = struct.pack("ii", 1, 0)
# What is reset ends at a later turn of the event loop, and its other end after that.
LAST_TURNS: Final = 5
COMING_SECONDS: Final = 1.0


class _End(asyncio.Protocol):
    """One end of a connection; what arrives here leaves at the other end."""

    def __init__(self, wire: "Wire", other: "_End | None" = None) -> None:
        self.wire = wire
        self.other = other
        self.transport: asyncio.Transport | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.wire.ends.add(self)
        if self.other is None:
            self.wire.forward(self)
            return
        for chunk in self.other.early:
            self.transport.write(chunk)
        if self.other.transport is None or self.other.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self.other is None or self.other.transport is None:
            self.early.append(data)
        else:
            self.other.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the signature
        self.transport = None
        self.wire.ends.discard(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def reset(self) -> None:
        if self.transport is not None:
            raw = self.transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, AT_ONCE)
            self.transport.abort()


class Wire:
    """Forwards to the server of a URL from a port of its own. Belongs to one event loop."""

    def __init__(self, url: str) -> None:
        self.target = urlsplit(url)
        self.port = ports.choose()
        self.ends: set[_End] = set()
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """The same address, by way of this wire."""
        user, at, _ = self.target.netloc.rpartition("@")
        return self.target._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()

    def forward(self, client: _End) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(client))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    def reset(self) -> None:
        for end in list(self.ends):
            end.reset()

    def turn(self, url: str) -> None:
        """Lead to another server from now on; whoever is connected to the old one is cut off."""
        self.target = urlsplit(url)
        self.reset()

    async def _connect(self, client: _End) -> None:
        server = client.other = _End(self, client)
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: server, self.target.hostname or "", self.target.port or 0
            )
        except OSError:
            # The server is away: its client is told as it would be without us.
            client.reset()


class Proxy(threading.Thread):
    """Runs wires in a thread of its own. `reset`, `turn` and `end` may be called from any other."""

    def __init__(self, urls: dict[str, str]) -> None:
        super().__init__(name="proxy", daemon=True)
        self.wires = {name: Wire(url) for name, url in urls.items()}
        self._loop = asyncio.new_event_loop()
        self._listens = threading.Event()
        self._servers: list[asyncio.Server] = []

    def url(self, name: str) -> str:
        return self.wires[name].url

    def listen(self) -> None:
        """Start, and return when every wire takes connections."""
        self.start()
        self._listens.wait()

    def reset(self, name: str) -> None:
        self._loop.call_soon_threadsafe(self.wires[name].reset)

    def turn(self, name: str, url: str) -> None:
        self._loop.call_soon_threadsafe(self.wires[name].turn, url)

    def end(self) -> None:
        """Stop listening, and cut off whoever is connected."""
        for name in self.wires:
            self.reset(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()
        # The loop may not have come to close what came at the very end: that goes with it here.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def run(self) -> None:
        self._loop.run_until_complete(self._listen())
        self._listens.set()
        self._loop.run_forever()
        for server in self._servers:
            server.close()
        self._loop.run_until_complete(self._cut_off())
        self._loop.close()

    async def _cut_off(self) -> None:
        """Let what is only coming come, and reset it with all the rest."""
        if coming := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(coming, timeout=COMING_SECONDS)
        for _ in range(LAST_TURNS):
            for wire in self.wires.values():
                wire.reset()
            await asyncio.sleep(0)

    async def _listen(self) -> None:
        for wire in self.wires.values():
            serving = await self._loop.create_server(partial(_End, wire), "127.0.0.1", wire.port)
            self._servers.append(serving)
