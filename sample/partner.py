"""A supplier's server: takes purchase orders over HTTP, and counts them by message id.

Run as `python -m sample.partner --folder FOLDER`; needs nothing but Python, and listens on this
machine alone. It drops repeats, is slow now and then, refuses orders that are too large, and has
an outage of twenty seconds every five minutes.
"""

import argparse
import json
import signal
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any, Final

HOST: Final = "127.0.0.1"
ADDRESS_FILE: Final = "partner.json"
LEDGER: Final = "partner.sqlite3"
FIRST_OUTAGE_SECONDS: Final = 45.0
OUTAGE_EVERY_SECONDS: Final = 300.0
OUTAGE_SECONDS: Final = 20.0
SLOW_SHARE: Final = 0.05
# A supplier's clerk looks at larger orders by hand.
LARGEST_TOTAL: Final = Decimal(1200)
MOST_BYTES: Final = 2**20
MAKE: Final = (
    "CREATE TABLE IF NOT EXISTS got (message_id TEXT PRIMARY KEY, ponum TEXT, times INTEGER)",
    "CREATE TABLE IF NOT EXISTS said (what TEXT PRIMARY KEY, times INTEGER)",
)
TAKE: Final = (
    "INSERT INTO got VALUES (?, ?, 1) ON CONFLICT (message_id) DO UPDATE SET times = times + 1 "
    "RETURNING times"
)
SAY: Final = "INSERT INTO said VALUES (?, 1) ON CONFLICT (what) DO UPDATE SET times = times + 1"


class Ledger:
    """The messages that were taken, in a file: a restart forgets nothing."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._rows = sqlite3.connect(file, check_same_thread=False, isolation_level=None)
        for statement in MAKE:
            self._rows.execute(statement)

    def take(self, message_id: str, ponum: str) -> bool:
        """Take a message; returns whether it is new."""
        with self._lock:
            (times,) = self._rows.execute(TAKE, (message_id, ponum)).fetchone()
            return bool(times == 1)

    def say(self, what: str) -> None:
        with self._lock:
            self._rows.execute(SAY, (what,))

    def counts(self) -> dict[str, int]:
        """Messages taken, those of them that came again, and how often it said no."""
        with self._lock:
            taken, again = self._rows.execute(
                "SELECT count(*), coalesce(sum(times - 1), 0) FROM got"
            ).fetchone()
            refused = dict(self._rows.execute("SELECT what, times FROM said").fetchall())
        return {"messages": taken, "repeated": again, "refused": 0, "unavailable": 0, **refused}

    def ids(self) -> list[str]:
        with self._lock:
            return [id_ for (id_,) in self._rows.execute("SELECT message_id FROM got")]

    def forget(self) -> None:
        with self._lock:
            self._rows.execute("DELETE FROM got")
            self._rows.execute("DELETE FROM said")


class Moods:
    """The times at which it is away or slow. `clock` gives seconds since it was started."""

    def __init__(
        self, random: Random, clock: Callable[[], float], slow_share: float = SLOW_SHARE
    ) -> None:
        self._random = random
        self._slow_share = slow_share
        self._clock = clock

    def is_away(self) -> bool:
        since = self._clock() - FIRST_OUTAGE_SECONDS
        return since >= 0 and since % OUTAGE_EVERY_SECONDS < OUTAGE_SECONDS

    def pause_seconds(self) -> float:
        if self._random.random() >= self._slow_share:
            return 0.0
        return self._random.uniform(0.3, 1.2)


def refusal(order: object) -> str:
    """Return why it does not take this order; empty when it does."""
    if not isinstance(order, dict) or not order.get("ponum"):
        return "This is no purchase order: ponum is missing."
    try:
        total = Decimal(str(order.get("total")))
    except InvalidOperation:
        return "The total is no number."
    if total > LARGEST_TOTAL:
        return f"Orders above {LARGEST_TOTAL} need a signature; this one is over {total}."
    return ""


class Desk(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    # Two small packets a second apart would cost forty milliseconds each on this machine.
    disable_nagle_algorithm = True
    ledger: Ledger
    moods: Moods

    def do_GET(self) -> None:
        if self.path == "/counts":
            self._answer(HTTPStatus.OK, self.ledger.counts())
        elif self.path == "/orders":
            self._answer(HTTPStatus.OK, {"message_ids": self.ledger.ids()})
        else:
            self._answer(HTTPStatus.NOT_FOUND, {"detail": "Ask for /counts or /orders."})

    def do_DELETE(self) -> None:
        self.ledger.forget()
        self._answer(HTTPStatus.OK, {"detail": "Everything is forgotten."})

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(min(length, MOST_BYTES))
        if self.moods.is_away():
            self.ledger.say("unavailable")
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, {"detail": "Closed for maintenance."})
            return
        time.sleep(self.moods.pause_seconds())
        message_id = self.headers.get("Idempotency-Key", "")
        order: Any = None
        with suppress(ValueError):
            order = json.loads(body)
        why = refusal(order) if message_id else "The header Idempotency-Key is missing."
        if why:
            self.ledger.say("refused")
            self._answer(HTTPStatus.UNPROCESSABLE_ENTITY, {"detail": why})
            return
        is_new = self.ledger.take(message_id, str(order["ponum"]))
        status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        self._answer(status, {"order": order["ponum"], "known_before": not is_new})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Counts tell enough."""

    def _answer(self, status: HTTPStatus, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve(folder: Path, moods: Moods | None = None) -> ThreadingHTTPServer:
    """A server on the port it had before if that is free, its address written to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    address_file = folder / ADDRESS_FILE
    began = time.monotonic()
    desk = type(
        "OneDesk",
        (Desk,),
        {
            "ledger": Ledger(folder / LEDGER),
            "moods": moods or Moods(Random(), lambda: time.monotonic() - began),  # noqa: S311 - play
        },
    )
    try:
        server = ThreadingHTTPServer((HOST, _port_of(address_file)), desk)
    except OSError:
        server = ThreadingHTTPServer((HOST, 0), desk)
    server.daemon_threads = True
    text = json.dumps({"address": f"http://{HOST}:{server.server_address[1]}"})
    fresh = address_file.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(address_file)
    return server


def _port_of(address_file: Path) -> int:
    try:
        return int(json.loads(address_file.read_text())["address"].rpartition(":")[2])
    except (OSError, ValueError, KeyError):
        return 0


def main() -> None:
    parser = argparse.ArgumentParser(description="The supplier of the sample.")
    parser.add_argument("--folder", type=Path, required=True, help="where it keeps its counts")
    server = serve(parser.parse_args().folder)
    for stop in (signal.SIGTERM, signal.SIGINT):
        # shutdown() waits for the loop of this very thread.
        signal.signal(stop, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"The supplier listens on port {server.server_address[1]}.", flush=True)
    server.serve_forever(poll_interval=0.2)


if __name__ == "__main__":
    main()
