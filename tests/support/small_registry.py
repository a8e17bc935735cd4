"""A schema registry of the test's own, as well-behaved or as bad as it is told to be."""

import json
import ssl
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Stored:
    """A schema, as it was registered."""

    text: str
    kind: str = "AVRO"
    subject: str = "t-value"
    version: int = 1
    references: list[dict[str, Any]] = field(default_factory=list)


class SmallRegistry:
    """Speaks Confluent's API. `status` answers everything, after `delay_seconds`.

    With a context it speaks TLS, and asks for certificates as that does.
    """

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.schemas: dict[int, Stored] = {}
        self.status = 200
        self.delay_seconds = 0.0
        self.asked: list[str] = []
        self.logins: list[str | None] = []
        registry = self

        class Handler(_Handler):
            own = registry

        self._scheme = "http" if context is None else "https"
        self._server = _Server(("127.0.0.1", 0), Handler)
        if context is not None:
            # Hands are shaken in the thread of each connection: none keeps the others waiting.
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._server.daemon_threads = True
        serve = partial(self._server.serve_forever, poll_interval=0.02)
        threading.Thread(target=serve, daemon=True).start()

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def put(self, schema_id: int, schema: object, **more: Any) -> None:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        self.schemas[schema_id] = Stored(text, **more)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> tuple[int, Any]:
        """Return status and answer to a GET."""
        steps = path.partition("?")[0].strip("/").split("/")
        match steps:
            case ["subjects"]:
                return 200, sorted({one.subject for one in self.schemas.values()})
            case ["config", *_]:
                return 200, {"compatibilityLevel": "BACKWARD"}
            case ["schemas", "ids", number]:
                found = self.schemas.get(int(number))
                return self._told(int(number), found)
            case ["schemas", "ids", number, "versions"]:
                one = self.schemas.get(int(number))
                return 200, [] if one is None else [_place(one)]
            case ["subjects", subject, "versions", version]:
                return self._of_subject(subject, version)
        return 404, {"error_code": 404, "message": "no such address"}

    def _of_subject(self, subject: str, version: str) -> tuple[int, Any]:
        found = [(n, one) for n, one in self.schemas.items() if one.subject == subject]
        if version != "latest":
            found = [pair for pair in found if pair[1].version == int(version)]
        if not found:
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number, one = max(found, key=lambda pair: pair[1].version)
        status, told = self._told(number, one)
        return status, {**told, "id": number, **_place(one)}

    def _told(self, number: int, one: Stored | None) -> tuple[int, Any]:
        if one is None:
            return 404, {"error_code": 40403, "message": f"Schema {number} not found"}
        told: dict[str, Any] = {"schema": one.text}
        if one.kind != "AVRO":
            told["schemaType"] = one.kind
        return 200, {**told, **({"references": one.references} if one.references else {})}


def _place(one: Stored) -> dict[str, Any]:
    return {"subject": one.subject, "version": one.version}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that breaks off, or is refused, is no fault of the server's."""


class _Handler(BaseHTTPRequestHandler):
    own: SmallRegistry

    def do_GET(self) -> None:
        self.own.asked.append(self.path)
        self.own.logins.append(self.headers.get("Authorization"))
        time.sleep(self.own.delay_seconds)
        status, answer = self.own.answer(self.path)
        if self.own.status != 200:
            status, answer = self.own.status, {"error_code": self.own.status * 100, "message": "no"}
        body = json.dumps(answer).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            return

    def log_message(self, *_: object) -> None:
        return
