"""The messages of the chaos run: to which queue, under which key, and how some of them fail."""

import json
import random
import threading
import time
from dataclasses import dataclass
from typing import Any, Final

from bench.faults.cards import Deck

LINE: Final = "chaos-line"
KEYED: Final = "chaos-keyed"
SHARED: Final = "chaos-shared"
INBOUND: Final = (LINE, KEYED, SHARED)
# What handlers publish: to a topic that partners read, and to a partner over HTTP.
OUT: Final = "chaos-out"
POSTED: Final = "chaos-posted"
OUT_CHANNEL: Final = "ChaosReply"
POSTED_CHANNEL: Final = "ChaosPost"
PARTITIONS: Final = {LINE: 1, KEYED: 4, SHARED: 4, OUT: 2, POSTED: 1}
INTERFACE: Final = "ChaosNote"
STRANGER: Final = "ChaosUnknown"
# Of the messages that may fail, one in so many does.
FAILING_EACH: Final = 60
MAX_RETRIES: Final = 2
FIRST_KILL_SECONDS: Final = 6.0
KILL_EVERY_SECONDS: Final = 25.0
KILLED: Final = (SHARED, KEYED, LINE)
KEYS: Final = {LINE: 8, KEYED: 20, SHARED: 60}
KINDS: Final = {
    "transient": 8,
    "spent": 2,
    "always": 2,
    "permanent": 2,
    "conflict": 3,
    "missing": 4,
    "unreadable": 2,
    "unknown": 1,
}
UNREADABLE: Final = (b"\xff\xfe\x00 no text in any way", b'{"seq": 1, "ends": "half-way')
SEQ_HEADER: Final = "chaos-seq"


@dataclass(frozen=True, slots=True)
class Sent:
    """One message. `queue` is the name of its topic, too; `seq` counts within it."""

    queue: str
    seq: int
    key: str
    payload: bytes

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """What tells its number where its bytes do not."""
        return [(SEQ_HEADER, str(self.seq).encode())]

    @property
    def record(self) -> dict[str, Any]:
        """What a producer is told of it."""
        place = {"topic": self.queue, "key": self.key.encode()}
        return {**place, "value": self.payload, "headers": list(self.headers)}


def channel_of(queue: str, seq: int) -> str | None:
    """Return the channel to which the handler of this message publishes, if it does."""
    if queue == LINE:
        return POSTED_CHANNEL if seq % 4 == 0 else None
    return OUT_CHANNEL if seq % 5 == 0 else None


def configurations(address: str) -> list[dict[str, object]]:
    """The queues, as `bench_configure` takes them. `address` is the partner's."""
    inbound: dict[str, object] = {
        "interface": INTERFACE,
        "max_retries": MAX_RETRIES,
        "retry_delay_seconds": 0.5,
        # So many failures on purpose would stop a queue.
        "failure_threshold": 0,
    }
    kinds: dict[str, dict[str, object]] = {
        LINE: {"kind": "sequential"},
        KEYED: {"kind": "continuous", "ordering": "key", "concurrency": 4},
        SHARED: {"kind": "continuous"},
    }
    named = [{"name": name, "topic": name, **inbound, **kinds[name]} for name in INBOUND]
    out: dict[str, object] = {
        "name": OUT,
        "topic": OUT,
        "kind": "continuous",
        "channel": OUT_CHANNEL,
    }
    posted = {"name": POSTED, "topic": POSTED, "kind": "sequential", "channel": POSTED_CHANNEL}
    return [*named, out, {**posted, "address": address, "idempotent": True}]


class Plan:
    """Makes messages for several senders at once; the same seed deals the same failures."""

    def __init__(self, seed: str) -> None:
        self._chance = random.Random(f"plan {seed}")
        self._deck = Deck(self._chance, KINDS)
        self._turn = threading.Lock()
        self._seqs = dict.fromkeys(INBOUND, 0)
        self._numbers: dict[tuple[str, str], int] = {}
        self._may_fail = 0
        self._kills = 0
        self._began = time.monotonic()
        self._awaited: list[tuple[float, str]] = []

    def message(self, queue: str, sender: str, *, may_fail: bool = True) -> Sent:
        """The next message of this queue. Keys belong to one sender each, which keeps their order.

        One that is not going to be committed must not fail: nobody would see it.
        """
        with self._turn:
            seq, body = self._body(queue, sender)
            kind = self._kind(queue) if may_fail else None
            return Sent(queue, seq, str(body["key"]), self._written(queue, body, kind))

    def arrivals(self, sender: str, *, all_of_them: bool = False) -> list[tuple[Sent, str]]:
        """Messages that bring the objects others wait for, and the name of each object."""
        with self._turn:
            now = time.monotonic()
            due = [name for at, name in self._awaited if all_of_them or at <= now]
            self._awaited = [each for each in self._awaited if each[1] not in due]
            return [(self._arrival(name, sender), name) for name in due]

    def again(self, name: str) -> None:
        """Let an object be brought once more: the message that did so may have been lost."""
        with self._turn:
            self._awaited.append((time.monotonic(), name))

    def _arrival(self, name: str, sender: str) -> Sent:
        seq, body = self._body(SHARED, sender)
        return Sent(SHARED, seq, str(body["key"]), json.dumps({**body, "brings": name}).encode())

    def _body(self, queue: str, sender: str) -> tuple[int, dict[str, object]]:
        seq = self._seqs[queue]
        self._seqs[queue] += 1
        key = f"{sender}-{self._chance.randrange(KEYS[queue])}"
        number = self._numbers.get((queue, key), 0)
        self._numbers[queue, key] = number + 1
        body: dict[str, object] = {"queue": queue, "seq": seq, "key": key, "number": number}
        channel = channel_of(queue, seq)
        return seq, body if channel is None else {**body, "publishes": channel}

    def _kind(self, queue: str) -> str | None:
        elapsed = time.monotonic() - self._began - FIRST_KILL_SECONDS
        is_due = elapsed >= self._kills * KILL_EVERY_SECONDS
        if is_due and queue == KILLED[self._kills % len(KILLED)]:
            self._kills += 1
            return "kill"
        self._may_fail += 1
        return self._deck.draw() if self._may_fail % FAILING_EACH == 0 else None

    def _written(self, queue: str, body: dict[str, object], kind: str | None) -> bytes:
        match kind:
            case "unreadable":
                return self._chance.choice(UNREADABLE)
            case "unknown":
                return json.dumps({"INTERFACE": STRANGER, "payload": json.dumps(body)}).encode()
            case "transient":
                body["succeeds_at"] = self._chance.choice((2, 3))
            case "spent":
                # The first try after its release.
                body["succeeds_at"] = MAX_RETRIES + 2
            case "conflict":
                body["clashes_until"] = 2
            case "missing":
                body["needs"] = name = f"{queue}-{body['seq']}"
                self._awaited.append((time.monotonic() + self._chance.uniform(1, 6), name))
            case _:
                body |= {} if kind is None else {"fails": kind}
        return json.dumps(body).encode()
