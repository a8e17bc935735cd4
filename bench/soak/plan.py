"""The messages of the soak: three queues as people have them, and what few of them do besides."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

PLAIN: Final = "soak-plain"
KEYED: Final = "soak-keyed"
LINE: Final = "soak-line"
# What handlers publish: to a topic that partners read, and to a partner over HTTP.
OUT: Final = "soak-out"
POSTED: Final = "soak-posted"
CHANNELS: Final = {OUT: "SoakReply", POSTED: "SoakPost"}
PARTITIONS: Final = {PLAIN: 4, KEYED: 4, LINE: 1, OUT: 1, POSTED: 1}
# Of twenty messages, so many go to each.
SHARES: Final = {PLAIN: 12, KEYED: 7, LINE: 1}
KEYS: Final = 500
# Every so many of a queue's messages …
FAILING_ONCE_EACH: Final = 400
HELD_EACH: Final = 8_000
PUBLISHING_EACH: Final = 50


@dataclass(frozen=True, slots=True)
class Sent:
    """One message; `queue` is the name of its topic, too, and `seq` counts within it."""

    queue: str
    key: str
    payload: bytes


def configurations(address: str) -> list[dict[str, object]]:
    """The queues, as `bench_configure` takes them. `address` is the partner's."""
    inbound: dict[str, object] = {
        "interface": "BenchPing",
        "max_retries": 2,
        "retry_delay_seconds": 0.5,
        # Failures on purpose are not to stop a queue.
        "failure_threshold": 0,
    }
    kinds: dict[str, dict[str, object]] = {
        PLAIN: {"kind": "continuous"},
        KEYED: {"kind": "continuous", "ordering": "key", "concurrency": 2},
        LINE: {"kind": "sequential"},
    }
    named = [{"name": name, "topic": name, **inbound, **kind} for name, kind in kinds.items()]
    out: dict[str, object] = {
        "name": OUT,
        "topic": OUT,
        "kind": "continuous",
        "channel": CHANNELS[OUT],
    }
    posted = {"name": POSTED, "topic": POSTED, "kind": "sequential", "address": address}
    return [*named, out, {**posted, "idempotent": True, "channel": CHANNELS[POSTED]}]


def messages() -> Iterator[Sent]:
    """All that will ever be sent, in order."""
    numbers = {name: count() for name in SHARES}
    while True:
        for turn in range(max(SHARES.values())):
            for queue, share in SHARES.items():
                if turn < share:
                    yield _message(queue, next(numbers[queue]))


def published_to(queue: str, seq: int) -> str | None:
    """Return the queue that takes what the handler of this message publishes, if it does."""
    if seq % PUBLISHING_EACH:
        return None
    return POSTED if queue == LINE else OUT


def _message(queue: str, seq: int) -> Sent:
    body: dict[str, object] = {"seq": seq}
    target = published_to(queue, seq)
    if target is not None:
        body["publishes"] = CHANNELS[target]
    # Behind the first, so that not all of them come at once.
    if seq % FAILING_ONCE_EACH == FAILING_ONCE_EACH - 1:
        body["fails"] = "once"
    if queue != LINE and seq % HELD_EACH == HELD_EACH // 2:
        body["fails"] = "held"
    return Sent(queue, str(seq % KEYS), json.dumps(body).encode())
