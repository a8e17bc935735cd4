"""The partners' messages: mostly sound ones, some that fail, one that blocks a queue."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import cycle
from random import Random
from typing import Final

from integration.documents.exact_json import encode
from sample import documents, names
from sample.wire import Sent, as_json, bare, send, wrapped

# Within half a minute every page has something to show.
BLOCK_AFTER_SECONDS: Final = 5.0
BEHIND_THE_BLOCK: Final = 40
DEAR_AFTER_SECONDS: Final = 8.0
CRASH_AFTER_SECONDS: Final = 10.0
OUTAGE_AFTER_SECONDS: Final = 20.0
OUTAGE_EVERY_SECONDS: Final = 300.0
OUTAGE: Final = timedelta(seconds=20)
# Enough of one cause to be worth a bulk operation; the sound ones between them keep the queue from
# its failure threshold.
FAULTY_LEVELS: Final = 240
SOUND_EVERY: Final = 3
# Every so many messages one fails, so a person finds each kind within some minutes.
FAILING_EVERY: Final = 12
NO_SUCH_ASSET: Final = "PMP-9999"

Maker = Callable[[Random, datetime], Sent]


class Traffic:
    """An endless stream of messages; the same seed and times give the same stream."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0
        self._failures: Iterator[Maker] = cycle(FAILURES)
        self._planned: list[tuple[float, Callable[[datetime], Iterator[Sent]]]] = [
            (BLOCK_AFTER_SECONDS, self._block),
            (DEAR_AFTER_SECONDS, self._dear),
            (CRASH_AFTER_SECONDS, self._crash),
            (OUTAGE_AFTER_SECONDS, self._outage),
        ]

    def opening(self, now: datetime) -> Iterator[Sent]:
        """Yield what all else refers to, one failure of each kind, and a terminal's long night."""
        for machine in documents.MACHINES:
            yield self._asset(machine)
        for _ in range(6):
            yield self._location()
        yield from outdated(self.random, now)
        for make in FAILURES:
            yield make(self.random, now)
        for number in range(FAULTY_LEVELS):
            yield nameless_level(self.random)
            if number % SOUND_EVERY == 0:
                yield self._level()

    def due(self, now: datetime, elapsed_seconds: float) -> Iterator[Sent]:
        """Yield what happens at its time: the block, the crash, the outages."""
        for planned in [sent for sent in self._planned if elapsed_seconds >= sent[0]]:
            self._planned.remove(planned)
            yield from planned[1](now)
            if planned[1] == self._outage:
                self._planned.append((elapsed_seconds + OUTAGE_EVERY_SECONDS, self._outage))

    def next(self, now: datetime) -> Sent:
        """The message to send now."""
        self._count += 1
        if self._count % FAILING_EVERY == 0:
            return next(self._failures)(self.random, now)
        return self._sound(now)

    def _sound(self, now: datetime) -> Sent:
        chosen = self.random.random()
        if chosen < 0.15:
            return self._level()
        if chosen < 0.45:
            reading = documents.reading(self.random, now)
            return send(names.MAINTENANCE, names.METER, reading, self.random)
        if chosen < 0.70:
            return self._asset(self.random.choice(documents.MACHINES))
        if chosen < 0.90:
            order = documents.order(self.random, now)
            return send(names.MAINTENANCE, names.ORDER, order, self.random)
        return self._location()

    def _asset(self, machine: documents.Machine) -> Sent:
        fields = documents.asset(machine, self.random)
        return send(names.ASSETS, names.ASSET, fields, self.random)

    def _location(self) -> Sent:
        fields = documents.location(self.random)
        return send(names.MAINTENANCE, names.LOCATION, fields, self.random)

    def _level(self) -> Sent:
        return send(names.STOCK, names.LEVEL, documents.level(self.random), self.random)

    def _block(self, _now: datetime) -> Iterator[Sent]:
        yield blocking(self.random)
        for _ in range(BEHIND_THE_BLOCK):
            yield self._asset(self.random.choice(documents.MACHINES))

    def _dear(self, now: datetime) -> Iterator[Sent]:
        yield dear_order(self.random, now)

    def _crash(self, _now: datetime) -> Iterator[Sent]:
        yield crashing(self.random)

    def _outage(self, now: datetime) -> Iterator[Sent]:
        yield closed_depot(self.random, now + OUTAGE)


def blocking(random: Random) -> Sent:
    """An asset with a status that does not exist: a person has to correct it."""
    fields = documents.asset(documents.MACHINES[0], random) | {"status": "BROKEN"}
    return send(names.ASSETS, names.ASSET, fields, random, "permanent: blocks the queue")


def negative_reading(random: Random, now: datetime) -> Sent:
    fields = documents.reading(random, now) | {"reading": -1}
    return send(names.MAINTENANCE, names.METER, fields, random, "permanent: validation")


def wrong_location(random: Random, _now: datetime) -> Sent:
    fields = documents.location(random) | {"type": "CASTLE"}
    return send(names.MAINTENANCE, names.LOCATION, fields, random, "permanent: schema")


def truncated(random: Random, now: datetime) -> Sent:
    sent = send(names.MAINTENANCE, names.ORDER, documents.order(random, now), random)
    value = sent.value or b""
    return sent._replace(value=value[: len(value) // 2], why="permanent: undecodable")


def curly_quotes(random: Random, now: datetime) -> Sent:
    """Spoil JSON as word processors do when it is sent by hand."""
    fields = documents.reading(random, now)
    text = re.sub(r'"([^"]*)"', r"“\1”", encode(fields))
    why = "permanent: typographic quotation marks"
    return bare(names.MAINTENANCE, names.METER, text, random, why)


def not_base64(random: Random, now: datetime) -> Sent:
    fields = documents.reading(random, now)
    value = wrapped(names.MAINTENANCE, names.METER, encode(fields), compress=True)
    spoilt = value.replace(b'"payload":"', b'"payload":"%%%')
    return Sent(names.MAINTENANCE, None, spoilt, (), "permanent: not Base64")


def closing_account(random: Random, now: datetime) -> Sent:
    fields = documents.order(random, now) | {"glaccount": "6210-CLOSING"}
    return send(names.MAINTENANCE, names.ORDER, fields, random, "transient: succeeds later")


def order_before_asset(random: Random, now: datetime) -> Sent:
    fields = documents.order(random, now)
    fields["poline"][0]["assetnum"] = NO_SUCH_ASSET
    return send(names.MAINTENANCE, names.ORDER, fields, random, "dependency: no such asset")


def unknown_service(random: Random, _now: datetime) -> Sent:
    fields = {"wonum": str(random.randrange(10**5)), "description": "Replace the seal"}
    return send(names.MAINTENANCE, names.WORK_ORDER, fields, random, "permanent: unknown service")


def disabled_service(random: Random, _now: datetime) -> Sent:
    fields = {"itemnum": f"IT-{random.randrange(900)}", "curbal": random.randrange(50)}
    return send(names.MAINTENANCE, names.INVENTORY, fields, random, "switched off: service")


def outdated(random: Random, now: datetime) -> Iterator[Sent]:
    """A newer revision of an order, then an older one: the second is superseded."""
    newer = documents.order(random, now) | {"ponum": "4599999", "poline": [], "status": "APPR"}
    yield as_json(names.MAINTENANCE, names.ORDER, newer)
    older = newer | {"revision": newer["revision"] - 1, "status": "WAPPR"}
    yield as_json(names.MAINTENANCE, names.ORDER, older, "superseded: an older revision")


def dear_order(random: Random, now: datetime) -> Sent:
    """It is applied here, and refused by the supplier: a person lowers its total."""
    fields = documents.order(random, now) | {"ponum": "4599998", "status": "APPR"}
    fields["poline"][0] |= {"orderqty": 150}
    return as_json(names.MAINTENANCE, names.ORDER, fields)


def nameless_level(random: Random) -> Sent:
    """The cause of hundreds: one edit of all of them mends it."""
    fields = documents.level(random)
    del fields["siteid"]
    return as_json(names.STOCK, names.LEVEL, fields, "permanent: siteid is missing")


def crashing(random: Random) -> Sent:
    fields = documents.level(random) | {"terminal": "FAULTY"}
    return as_json(names.STOCK, names.LEVEL, fields, "crash: ends the worker's process")


def closed_depot(random: Random, until: datetime) -> Sent:
    fields = documents.level(random) | {"closed_until": until.isoformat()}
    return as_json(names.STOCK, names.LEVEL, fields, "outage: closed for stock-taking")


FAILURES: Final[tuple[Maker, ...]] = (
    negative_reading,
    closing_account,
    order_before_asset,
    truncated,
    unknown_service,
    disabled_service,
    wrong_location,
    curly_quotes,
    not_base64,
)
