"""A forward proxy on this machine: it tunnels and forwards, with a login or without one."""

import base64
import http.client
import select
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

CHUNK = 65_536


class ForwardProxy:
    """It notes what it was asked for; names ending in `.invalid` it takes for this machine."""

    def __init__(
        self,
        login: tuple[str, str] | None = None,
        refuses: int = 0,
        marks: Mapping[str, str] | None = None,
        waits: float = 5,
    ) -> None:
        """`marks` are headers of what it answers itself, `waits` its patience with partners."""
        self.asked: list[str] = []
        self.expects = (
            None if login is None else base64.b64encode(":".join(login).encode()).decode()
        )
        self.refuses = refuses
        self.marks = marks or {}
        self.waits = waits
        proxy = self

        class Handler(_Handler):
            own = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.02)


class _Handler(BaseHTTPRequestHandler):
    own: ForwardProxy
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Nothing."""

    def _may(self) -> bool:
        self.own.asked.append(f"{self.command} {self.path}")
        said = self.headers.get("Proxy-Authorization", "")
        if self.own.refuses:
            self._end(self.own.refuses, said)
        elif self.own.expects is not None and said != f"Basic {self.own.expects}":
            self._end(407, said)
        else:
            return True
        return False

    def _end(self, status: int, said: str) -> None:
        """Refuse, with what was sent in the answer, as some do."""
        body = said.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        for name, value in self.own.marks.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def do_CONNECT(self) -> None:
        if not self._may():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((_place(host), int(port)), 5) as there:
            self.send_response(200)
            self.end_headers()
            self._carry(there)
        self.close_connection = True

    def _carry(self, there: socket.socket) -> None:
        with suppress(OSError):
            while True:
                ready, _, _ = select.select([self.connection, there], [], [], 10)
                for one in ready:
                    piece = one.recv(CHUNK)
                    if not piece:
                        return
                    (there if one is self.connection else self.connection).sendall(piece)
                if not ready:
                    return

    def do_POST(self) -> None:
        if not self._may():
            return
        parts = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        place = _place(parts.hostname or "")
        there = http.client.HTTPConnection(place, parts.port, timeout=self.own.waits)
        sent = {n: v for n, v in self.headers.items() if not n.lower().startswith("proxy-")}
        try:
            there.request("POST", parts.path, body, sent)
            answer = there.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as problem:
            self._end(504 if isinstance(problem, TimeoutError) else 502, "")
            return
        finally:
            there.close()
        self.send_response(answer.status)
        self.send_header("Via", "1.1 little")
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def _place(host: str) -> str:
    return "127.0.0.1" if host.endswith(".invalid") else host
