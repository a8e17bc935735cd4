"""The time a person needs for a bad morning: 5,000 failures of one cause, mended with a mouse."""

import json
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from playwright.sync_api import expect

from bench import traffic, workload
from bench.figure import Figure, below
from bench.ground import Ground
from bench.hand import LOOK_SECONDS, PATIENCE_SECONDS, Hand, at_the_console
from bench.rig import BenchmarkError, Rig

FAILURES: Final = 5_000
KEYS: Final = 2_000
# The queue goes on meanwhile: so many good messages a second, of the same keys.
TRICKLE_PER_SECOND: Final = 50
MOST_CLICKS: Final = 15
NAME: Final = "stopwatch"
QUEUE: Final = "morning"
# The handler refuses a message that bears this mark; the repair writes another word.
MARK: Final = {"fails": "held"}
_OPEN: Final = """
SELECT count(*) FROM integration_messageerror
WHERE state IN ('HOLD', 'READY', 'RETRY', 'PROCESSING')
"""
_STALE: Final = """
SELECT count(*) FROM bench_newest n LEFT JOIN bench_asset a USING (assetnum)
WHERE a.seq IS DISTINCT FROM n.seq
"""


@dataclass(frozen=True, slots=True)
class Repaired:
    """The reading of the stopwatch, and what the browser complained of."""

    seconds: float
    clicks: int
    fields: int
    complaints: list[str]


def repair_stopwatch(ground: Ground) -> Figure:
    """Measure from the overview to the repair of 5,000 held messages, while the queue runs."""
    count = FAILURES // 10 if ground.quick else FAILURES
    with ground.rig("repair_stopwatch") as rig:
        address, password = _bad_morning(rig, count)
        trickle = Trickle(rig, 2 * count)
        trickle.start()
        try:
            with at_the_console(address, rig.folder) as hand:
                hand.log_in(NAME, password)
                repair = _repaired(rig, hand, count)
        finally:
            sent = trickle.end()
        rig.until(lambda: _effects(rig) >= sent, "every message has had its effect")
        claims = _claims(rig, count, sent)
    return Figure(
        name="repair_stopwatch",
        value=repair.seconds,
        unit="s",
        n=count,
        against="from asking for the overview to the page and SQL saying that all are resolved",
        target=below("value", 90),
        claims={
            f"at most {MOST_CLICKS} clicks": repair.clicks <= MOST_CLICKS,
            "the browser complains of nothing": not repair.complaints,
            **claims,
        },
        facts={
            "clicks": repair.clicks,
            "fields": repair.fields,
            "looking_s": (repair.clicks + repair.fields) * LOOK_SECONDS,
            "meanwhile": sent - 2 * count,
        },
    )


def _bad_morning(rig: Rig, count: int) -> tuple[str, str]:
    """Every second of twice `count` messages failed; returns the console's address, a password.

    The good messages between are of the same keys, so that some of the failures are older than
    what is stored since.
    """
    rig.topic(QUEUE, _messages(count))
    rig.configure({"name": QUEUE, "topic": QUEUE, "kind": "continuous", "interface": "BenchRepair"})
    rig.start("relay")
    rig.start("beat")
    rig.start_worker()
    static = {"SLUICE_STATIC_ROOT": str(rig.folder / "static")}
    rig.manage("collectstatic", "--noinput", "--verbosity", "0", environment=static)
    password = secrets.token_urlsafe(12)
    words = ["createsuperuser", "--noinput", "--username", NAME, "--email", ""]
    rig.manage(*words, environment={"DJANGO_SUPERUSER_PASSWORD": password})
    address = rig.start_web(static)
    rig.until(lambda: rig.value(_OPEN) == count, f"{count:,} messages are on hold")
    return address, password


def _messages(count: int) -> Iterator[bytes]:
    for seq in range(2 * count):
        yield workload.asset(seq, KEYS, MARK if seq % 2 else None)


class Trickle(threading.Thread):
    """Good messages at a steady pace from number `first` on, until it is told to end."""

    def __init__(self, rig: Rig, first: int) -> None:
        super().__init__(name="trickle", daemon=True)
        self._servers = rig.bootstrap
        self._next = first
        self._ending = threading.Event()

    def run(self) -> None:
        while not self._ending.wait(1.0):
            after = self._next + TRICKLE_PER_SECOND
            payloads = [workload.asset(seq, KEYS) for seq in range(self._next, after)]
            self._next += traffic.produce(self._servers, QUEUE, payloads)

    def end(self) -> int:
        """Returns how many messages the topic holds."""
        self._ending.set()
        self.join()
        return self._next


def _repaired(rig: Rig, hand: Hand, count: int) -> Repaired:
    """Overview → failures by cause → change, dry run → one first → the rest → all resolved."""
    page, all_ = hand.page, f"{count:,}"
    began = time.monotonic()
    page.goto("/")
    menu = page.get_by_role("navigation", name="Pages")
    hand.click(menu.get_by_role("link", name="Failures"))
    hand.click(page.get_by_role("row", name=f"{all_} on hold").get_by_role("button", name="Edit"))
    hand.write("Path", "$.fails")
    hand.write("New value", "no")
    hand.press(f"Try it on all {all_}")
    expect(page.get_by_role("heading", name="Dry run: nothing was changed")).to_be_visible()
    hand.write("Reason", "the partner marked them by mistake")
    hand.press("Edit one first")
    first = page.get_by_role("heading", name="The first message")
    expect(first).to_contain_text("Resolved", timeout=PATIENCE_SECONDS * 1_000)
    hand.press("Continue with the rest")
    resolved = page.locator("//dt[.='Resolved']/following-sibling::dd[1]")
    expect(resolved).to_contain_text(re.compile(rf"^\s*{all_}\b"), timeout=PATIENCE_SECONDS * 1_000)
    rig.until(lambda: rig.value(_OPEN) == 0, "SQL says that all are resolved", 10)
    seconds = time.monotonic() - began
    return Repaired(seconds, hand.clicks, hand.fields, hand.complaints)


def _effects(rig: Rig) -> int:
    return int(rig.value("SELECT count(*) FROM bench_effect"))


def _claims(rig: Rig, count: int, sent: int) -> dict[str, bool]:
    """Compare what SQL says of the failures and of every message that was sent."""
    states = rig.rows("SELECT state, count(*) FROM integration_messageerror GROUP BY state")
    effects = rig.rows("SELECT count(*), count(DISTINCT seq) FROM bench_effect")
    items = rig.rows("SELECT outcome, count(*) FROM integration_operationitem GROUP BY outcome")
    _remember_newest(rig, range(sent))
    return {
        "all resolved, none held": states == [("RESOLVED", count)],
        "each item has one outcome": items == [("DONE", count)],
        "none applied twice": effects == [(sent, sent)],
        "0 stale keys": rig.value(_STALE) == 0,
    }


def _remember_newest(rig: Rig, seqs: Iterable[int]) -> None:
    """For each key the newest message that was sent, whether it failed at first or not."""
    newest = {json.loads(workload.asset(seq, KEYS))["assetnum"]: seq for seq in seqs}
    if len(newest) < 2:
        raise BenchmarkError("too few keys to find a stale one")
    rig.write("CREATE TABLE bench_newest (assetnum text PRIMARY KEY, seq bigint NOT NULL)")
    rig.write(
        "INSERT INTO bench_newest SELECT * FROM unnest(%s::text[], %s::bigint[])",
        [list(newest), list(newest.values())],
    )
