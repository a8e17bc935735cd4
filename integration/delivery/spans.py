"""The spans of one transaction: which of its messages are traced, and what came of their tries."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from integration.delivery.calling import call_one
from integration.delivery.outcome import Failed, Good, Outcome
from integration.delivery.owned import Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import OpenError, Unit
from integration.message import Message
from integration.policy.states import ErrorState
from integration.tracing import derived, spans
from integration.tracing.context import TraceContext, context_of
from integration.tracing.derived import Partition
from integration.tracing.spans import Attribute, Kind, Span, Tracer

# Of messages that came without a context so many of a batch begin a trace: a span, most of all its
# encoding, costs as much as two messages do in a full batch. Where few come each has its trace.
ROOTS_A_BATCH: Final = 5


@dataclass(frozen=True, slots=True)
class Traced:
    """One traced message: the place it was created at, None for none, and that of this try."""

    creation: TraceContext | None
    own: TraceContext


class Places:
    """Where the messages of one partition stand in their traces."""

    def __init__(self, tracer: Tracer, queue: QueueSnapshot, owned: Owned) -> None:
        self.tracer = tracer
        self.queue = queue
        self._partitions: dict[tuple[str, int], Partition] = {}
        self._own = self._of(owned.topic_uuid, owned.partition)

    def traced(self, unit: Unit, number: int) -> Traced | None:
        """The place of a try whose commit has this arrival number; None: it is not traced."""
        creation = context_of(unit.record.headers) if unit.record.headers else None
        if creation is not None:
            return self._below(creation, unit, number) if self.tracer.keeps(creation) else None
        if not self.begins(unit):
            return None
        trace = derived.trace_id(self._partition(unit.row), unit.record.offset)
        return Traced(None, TraceContext(trace, self._span_id(trace, unit, number), sampled=True))

    def begins(self, unit: Unit) -> bool:
        """Return whether a message that came without a context begins a trace."""
        partition = self._own if unit.row is None else self._partition(unit.row)
        return derived.low_half(partition, unit.record.offset) < self.tracer.bound

    def first(self, traced: Traced, row: OpenError | None) -> TraceContext | None:
        """The span of the first try of a failure; None for a message that has not failed."""
        if row is None or row.arrival_batch is None or not row.attempts:
            return None
        trace = traced.own.trace_id
        span_id = derived.span_id(trace, self.queue.id, row.offset, row.arrival_batch)
        return TraceContext(trace, span_id, traced.own.sampled)

    def untraced(self, message: Message) -> TraceContext:
        """The context of a message that began no trace: what it causes shall begin none either."""
        partition = self._of(message.topic_uuid, message.partition)
        trace = derived.trace_id(partition, message.offset)
        span_id = derived.span_id(trace, self.queue.id, message.offset, 0)
        return TraceContext(trace, span_id, sampled=False)

    def _below(self, creation: TraceContext, unit: Unit, number: int) -> Traced:
        span_id = self._span_id(creation.trace_id, unit, number)
        return Traced(
            creation, TraceContext(creation.trace_id, span_id, sampled=True, state=creation.state)
        )

    def _span_id(self, trace: str, unit: Unit, number: int) -> str:
        return derived.span_id(trace, self.queue.id, unit.record.offset, number)

    def _partition(self, row: OpenError | None) -> Partition:
        return self._own if row is None else self._of(row.topic_uuid, row.partition)

    def _of(self, topic_uuid: str, partition: int) -> Partition:
        known = self._partitions.get((topic_uuid, partition))
        if known is None:
            known = derived.partition_of(topic_uuid, self.queue.topic, partition)
            self._partitions[topic_uuid, partition] = known
        return known


class NoSpans:
    """The spans of a transaction while nothing is traced."""

    def begin(self, units: Sequence[Unit], number: int) -> None:
        """Choose the messages that are traced; `number` is the transaction's arrival number."""

    def call(self, unit: Unit) -> Outcome:
        """Call the handler of one message; what it traces by itself belongs under its try."""
        return call_one(unit)

    def note(self, units: Sequence[Unit], outcomes: Sequence[Outcome]) -> None:
        """Note what came of them; it counts once it is committed."""

    def settled(self) -> None:
        """Hand over the spans: the transaction is committed."""


NO_SPANS: Final = NoSpans()


class BatchSpans(NoSpans):
    """The spans of the messages of one transaction. Made for one attempt, used once.

    Nothing of them leaves before `settled`: of what was rolled back there is no span.
    """

    def __init__(self, tracer: Tracer, queue: QueueSnapshot, owned: Owned) -> None:
        self._tracer = tracer
        self._places = Places(tracer, queue, owned)
        self._began_ns = tracer.now()
        self._traced: dict[Unit, Traced] = {}
        self._contexts: dict[Message, TraceContext] = {}
        self._outcomes: list[tuple[Unit, Outcome]] = []

    def begin(self, units: Sequence[Unit], number: int) -> None:
        places, roots = self._places, 0
        for unit in units:
            # Most come without headers, and of those only the first few begin a trace.
            if not unit.record.headers and (roots >= ROOTS_A_BATCH or not places.begins(unit)):
                continue
            traced = places.traced(unit, number)
            if traced is None or (traced.creation is None and roots >= ROOTS_A_BATCH):
                continue
            roots += traced.creation is None
            self._trace(unit, traced)

    def context_of(self, message: Message) -> TraceContext | None:
        """The place under which belongs what this message causes."""
        known = self._contexts.get(message)
        if known is not None:
            # What the handler traces by itself is nearer.
            own = self._tracer.current()
            return own if own is not None and own.trace_id == known.trace_id else known
        return context_of(message.headers) or self._places.untraced(message)

    def call(self, unit: Unit) -> Outcome:
        traced = self._traced.get(unit)
        if traced is None:
            return call_one(unit)
        with self._tracer.within(traced.own):
            return call_one(unit)

    def note(self, units: Sequence[Unit], outcomes: Sequence[Outcome]) -> None:
        if self._traced:
            both = zip(units, outcomes, strict=False)
            self._outcomes = [(unit, outcome) for unit, outcome in both if unit in self._traced]

    def settled(self) -> None:
        if not self._outcomes:
            return
        ended_ns = self._tracer.now()
        self._tracer.ended(
            [
                process_span(
                    self._places, unit, self._traced[unit], outcome, (self._began_ns, ended_ns)
                )
                for unit, outcome in self._outcomes
            ]
        )

    def _trace(self, unit: Unit, traced: Traced) -> None:
        self._traced[unit] = traced
        if unit.message is not None:
            self._contexts[unit.message] = traced.own
        note_trace(unit, traced)


def note_trace(unit: Unit, traced: Traced) -> None:
    """Let tracking know of a trace that begins here: what was kept of the message has none."""
    if traced.creation is None and unit.tracked is not None:
        # The line that was made while it was read is not this one.
        unit.tracked = unit.tracked._replace(trace_id=traced.own.trace_id, text="")


def process_span(
    places: Places, unit: Unit, traced: Traced, outcome: Outcome, times: tuple[int, int]
) -> Span:
    """The span of one try of one message, from its transaction's beginning to its commit.

    A later try belongs under the place where the message was created, as the first did, and is
    linked to that.
    """
    queue, first = places.queue, places.first(traced, unit.row)
    failure = outcome.failure if isinstance(outcome, Failed) else None
    return Span(
        name=f"process {queue.topic}",
        kind=Kind.CONSUMER,
        context=traced.own,
        parent=traced.creation or first,
        links=[place for place in (traced.creation, first) if place is not None],
        start_ns=times[0],
        end_ns=times[1],
        attributes=_attributes(queue, unit, outcome),
        error="" if failure is None else failure.code,
    )


def _attributes(queue: QueueSnapshot, unit: Unit, outcome: Outcome) -> dict[str, Attribute]:
    record, row = unit.record, unit.row
    told: dict[str, Attribute] = {
        spans.SYSTEM: spans.JMS if queue.is_jms else spans.KAFKA,
        spans.OPERATION: "process",
        spans.OPERATION_TYPE: "process",
        spans.DESTINATION: queue.topic,
        spans.MESSAGE_ID: unit.message_id,
        spans.QUEUE: queue.name,
        spans.SERVICE: unit.interface,
        spans.ATTEMPT: 1 if row is None else row.attempts + 1,
    }
    if not queue.is_jms:
        told |= {spans.PARTITION: str(record.partition), spans.KAFKA_OFFSET: record.offset}
    if row is not None:
        told[spans.RELEASED] = row.state == ErrorState.READY
    if isinstance(outcome, Good):
        told[spans.ENDED] = outcome.ended.value
    return told
