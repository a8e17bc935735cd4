"""What the partner sends: mostly sound messages, some that fail, one that blocks a queue."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import cycle
from random import Random
from typing import Final

from sample import documents, names
from sample.wire import Sent, bare, send, wrapped

BLOCK_AFTER_SECONDS: Final = 20.0
# Every so many messages one fails, so a person finds each kind within some minutes.
FAILING_EVERY: Final = 12
NO_SUCH_ASSET: Final = "PMP-9999"

Maker = Callable[[Random, datetime], Sent]


class Traffic:
    """An endless stream of messages; the same seed and times give the same stream."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0
        self._blocked = False
        self._failures: Iterator[Maker] = cycle(FAILURES)

    def opening(self) -> Iterator[Sent]:
        """What everything else refers to: all assets, and some locations."""
        for machine in documents.MACHINES:
            yield self._asset(machine)
        for _ in range(6):
            yield self._location()

    def next(self, now: datetime, elapsed_seconds: float) -> Sent:
        """The message to send now; `elapsed_seconds` since the start."""
        self._count += 1
        if elapsed_seconds >= BLOCK_AFTER_SECONDS and not self._blocked:
            self._blocked = True
            return blocking(self.random)
        if self._count % FAILING_EVERY == 0:
            return next(self._failures)(self.random, now)
        return self._sound(now)

    def _sound(self, now: datetime) -> Sent:
        chosen = self.random.random()
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
    """As word processors spoil JSON that is sent by hand."""
    fields = documents.reading(random, now)
    text = f"{{“assetnum”: “{fields['assetnum']}”, “reading”: {fields['reading']}}}"
    why = "permanent: typographic quotation marks"
    return bare(names.MAINTENANCE, names.METER, text, random, why)


def not_base64(random: Random, now: datetime) -> Sent:
    fields = documents.reading(random, now)
    value = wrapped(names.MAINTENANCE, names.METER, str(fields), compress=True)
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
