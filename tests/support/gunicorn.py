"""The console and the HTTP API as they are shipped: gunicorn, in processes of their own."""

import http.client
import json
import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from devstack import ports
from devstack.parts import PARTS
from tests.support import warm
from tests.support.warm import WarmChild

READY_SECONDS = 60.0
[WEB] = [part for part in PARTS if part.name == "web"]


class Answer(NamedTuple):
    """What came back over the wire."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Request(NamedTuple):
    """What is sent over the wire."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = b""


@contextmanager
def shipped_web(environment: Mapping[str, str], folder: Path, *further: str) -> Iterator[int]:
    """The shipped command on a free port of this machine, with further arguments, ready."""
    port = ports.choose()
    words = [word.replace("{web_port}", str(port)) for word in WEB.arguments]
    log = folder / "web.log"
    with log.open("wb") as out:
        process = warm.child(
            [*words, *further],
            environment,
            log=out,
        )
    try:
        _wait(process, port, log)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def _wait(process: WarmChild, port: int, log: Path) -> None:
    ends = time.monotonic() + READY_SECONDS
    while True:
        try:
            if ask(port, Request("GET", "/healthz", {})).status == 200:
                return
        except OSError:
            time.sleep(0.05)
        assert process.poll() is None, log.read_text(errors="replace")[-2_000:]
        assert time.monotonic() < ends, log.read_text(errors="replace")[-2_000:]


def ask(port: int, request: Request) -> Answer:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        return _asked(connection, request)
    finally:
        connection.close()


def ask_all(port: int, requests: list[Request], *, at_once: int) -> list[Answer]:
    """Every request, so many at a time, each sender on one connection that stays open."""

    def sender(own: list[Request]) -> list[Answer]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            return [_asked(connection, request) for request in own]
        finally:
            connection.close()

    shares = [requests[place::at_once] for place in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        return [answer for answers in pool.map(sender, shares) for answer in answers]


def _asked(connection: http.client.HTTPConnection, request: Request) -> Answer:
    connection.request(request.method, request.path, request.body, dict(request.headers))
    answer = connection.getresponse()
    return Answer(answer.status, dict(answer.getheaders()), answer.read())
