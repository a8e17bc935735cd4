"""A partner over HTTP on this machine, as well-behaved or as bad as its path says."""

import json
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

PIECE = b"x" * 65_536


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class HttpPartner:
    """Answers by the first step of the path: take, status-422, after-429, hang, reset and so on."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self.sent_bytes = 0
        self.tokens: list[str] = []
        self.good_tokens: set[str] = set()
        self.leaving = threading.Event()
        partner = self

        class Handler(_Handler):
            own = partner

        self._server = _Server(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port: int = self._server.server_port
        self.scheme = "http" if tls is None else "https"
        # It looks so often whether it should end, which is what `close` waits for.
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        threading.Thread(target=serve, daemon=True).start()

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def ids(self) -> list[str]:
        """The message ids it took, repeats dropped."""
        taken = [r for r in self.requests if r.path.startswith("/take")]
        return list(dict.fromkeys(r.headers["idempotency-key"] for r in taken))

    def close(self) -> None:
        self.leaving.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the library's 5, one of several that come at once is let in a second later.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    own: HttpPartner
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        try:
            super().handle()
        except (OSError, ssl.SSLError):
            self.close_connection = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = urlsplit(self.path)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.own.requests.append(Request(self.command, self.path, headers, body))
        word, _, argument = parts.path.split("/")[1].partition("-")
        getattr(self, f"on_{word}")(unquote(argument), parse_qs(parts.query))

    do_GET = do_POST  # noqa: N815 - the library's names
    do_PUT = do_POST  # noqa: N815 - as above

    def log_message(self, *_args: Any) -> None:
        """A test says itself what it wants to see."""

    def answer(self, status: int, body: bytes = b"ok", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self._headers_buffer.append(b"\r\n" + body)  # type: ignore[attr-defined]
        self.flush_headers()

    def on_take(self, _: str, __: Any) -> None:
        self.answer(201)

    def on_status(self, code: str, _: Any) -> None:
        self.answer(int(code), b"as asked\x00")

    def on_echo(self, code: str, _: Any) -> None:
        """As pages for developers do: all that came, back again."""
        self.answer(int(code), str(self.headers).encode())

    def on_after(self, code: str, query: dict[str, list[str]]) -> None:
        self.answer(int(code), Retry_After=query["value"][0])

    def on_redirect(self, code: str, query: dict[str, list[str]]) -> None:
        self.answer(int(code), Location=query["to"][0])

    def on_hang(self, _: str, __: Any) -> None:
        self.own.leaving.wait(20)

    def on_reset(self, _: str, __: Any) -> None:
        self._reset()

    def on_midbody(self, code: str, _: Any) -> None:
        self.send_response(int(code))
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"begun")
        self.wfile.flush()
        self._reset()

    def on_drip(self, where: str, _: Any) -> None:
        if where == "body":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
        else:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
        while not self.own.leaving.wait(0.05):
            self.wfile.write(b"x")
            self.wfile.flush()

    def on_huge(self, _: str, __: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(2 * 2**30))
        self.end_headers()
        while not self.own.leaving.is_set():
            self.wfile.write(PIECE)
            self.own.sent_bytes += len(PIECE)

    def on_token(self, kind: str, _: Any) -> None:
        if kind == "silent":
            self.own.leaving.wait(20)
            return
        if kind == "bad":
            self.answer(401, b'{"error": "invalid_client"}', Content_Type="application/json")
            return
        if kind == "echo":
            told = {"error": "invalid_client", "error_description": str(self.headers)}
            self.answer(401, json.dumps(told).encode(), Content_Type="application/json")
            return
        token = f"token-{len(self.own.tokens) + 1}"
        self.own.tokens.append(token)
        self.own.good_tokens = {token}
        body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600})
        self.answer(200, body.encode(), Content_Type="application/json")

    def on_guarded(self, _: str, __: Any) -> None:
        given = self.headers.get("Authorization", "").removeprefix("Bearer ")
        self.answer(201 if given in self.own.good_tokens else 401)

    def _reset(self) -> None:
        """End the connection with RST instead of FIN."""
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.close_connection = True
        self.wfile = _Nothing()  # type: ignore[assignment]
        self.connection.close()


class _Nothing:
    """Where a closed connection writes to."""

    closed = False

    def flush(self) -> None:
        """Nothing is left to be written."""

    def close(self) -> None:
        self.closed = True

    def write(self, content: bytes) -> int:
        return len(content)
