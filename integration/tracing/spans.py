"""Spans as values, and the port through which they leave; chosen once for each installation.

Names and attributes are OpenTelemetry's semantic conventions for messaging.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Lock
from typing import Final, Protocol

from integration.tracing.context import TraceContext

Attribute = str | int | bool

SYSTEM: Final = "messaging.system"
OPERATION: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
MESSAGE_ID: Final = "messaging.message.id"
KAFKA_OFFSET: Final = "messaging.kafka.offset"
ERROR: Final = "error.type"
BATCH: Final = "messaging.batch.message_count"
METHOD: Final = "http.request.method"
ROUTE: Final = "http.route"
STATUS: Final = "http.response.status_code"
# What only Sluice has.
QUEUE: Final = "sluice.queue"
SERVICE: Final = "sluice.service"
ATTEMPT: Final = "sluice.attempt"
ENDED: Final = "sluice.ended"
RELEASED: Final = "sluice.released"
ENDPOINT: Final = "sluice.endpoint"
SYSTEM_NAME: Final = "sluice.system"
REPEATED: Final = "sluice.repeated"
KAFKA: Final = "kafka"
JMS: Final = "jms"


class Kind(StrEnum):
    """The kinds of spans that are made here, by OpenTelemetry's names."""

    SERVER = "SERVER"
    CLIENT = "CLIENT"
    CONSUMER = "CONSUMER"


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One span that has ended. Times are nanoseconds since 1970.

    `links` are spans it belongs to beside its parent. `error` is a code, "" for none. The
    sentence of a failure is in none: it may quote a value that pages hide.
    """

    name: str
    kind: Kind
    context: TraceContext
    parent: TraceContext | None
    start_ns: int
    end_ns: int
    links: Sequence[TraceContext] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    error: str = ""


class Tracer(Protocol):
    """Where spans go. Nothing here raises or waits: what is too much is dropped."""

    @property
    def bound(self) -> int:
        """A message without a context begins a trace when the low half of its id is below this."""

    def keeps(self, context: TraceContext) -> bool:
        """Return whether spans are kept of a trace that began elsewhere."""

    def now(self) -> int:
        """Return the time in nanoseconds since 1970, by the clock that spans are measured with."""

    def new_trace(self) -> TraceContext:
        """Return the first place of a trace of its own."""

    def new_span(self, parent: TraceContext) -> TraceContext:
        """Return a new place below `parent`."""

    def ended(self, spans: Sequence[Span]) -> None:
        """Take spans that have ended; those of traces that are not kept are left out."""

    def current(self) -> TraceContext | None:
        """Return the place that the running code is at by its own tracing; None for none."""

    def within(self, context: TraceContext) -> AbstractContextManager[object]:
        """Let what the code of the block traces by itself belong under this place."""

    def close(self) -> None:
        """Send what waits, for two seconds at most; may be called twice."""


_made: list[Tracer] = []
_make: list[Callable[[], Tracer]] = []
_one_at_a_time: Final = Lock()


def use(make: Callable[[], Tracer] | None) -> None:
    """Choose what makes the tracer of a process; None: nothing is traced."""
    _made.clear()
    _make[:] = [] if make is None else [make]


def tracer() -> Tracer | None:
    """The tracer of this process, made when it is first asked for; None while nothing is traced."""
    if not _make:
        return None
    if not _made:
        with _one_at_a_time:
            if not _made:
                _made.append(_make[0]())
    return _made[0]


def current() -> TraceContext | None:
    """The place that the running code is at by its own tracing; None for none."""
    made = tracer()
    return None if made is None else made.current()


def close() -> None:
    """Send what waits: the process ends."""
    for made in _made:
        made.close()
