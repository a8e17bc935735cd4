"""The spans of calls: one of each call as the partner's side sees it, one of the try it was."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from integration.delivery.outcome import Outcome
from integration.delivery.owned import Owned
from integration.delivery.sending.answers import read
from integration.delivery.sending.call_threads import Call
from integration.delivery.sending.values import Intent
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.spans import Places, Traced, note_trace, process_span
from integration.delivery.unit import Unit
from integration.endpoints.port import Answer, OutboundMessage
from integration.tracing import spans
from integration.tracing.context import NAMES, TraceContext, headers_of
from integration.tracing.spans import Attribute, Kind, Span, Tracer


@dataclass(frozen=True, slots=True)
class _Called:
    """One traced message on its way: the place that went along with it, and since when."""

    traced: Traced
    context: TraceContext
    began_ns: int


@dataclass(frozen=True, slots=True)
class _Ended:
    """What came of it, not yet committed."""

    unit: Unit
    called: _Called
    endpoint: str
    answer: Answer
    outcome: Outcome
    ended_ns: int


class CallSpans:
    """The spans of the calls of one batch. Made for one batch, used once."""

    def __init__(self, tracer: Tracer, queue: QueueSnapshot, owned: Owned) -> None:
        self._tracer = tracer
        self._places = Places(tracer, queue, owned)
        self._under_way: dict[Unit, _Called] = {}
        self._ended: list[_Ended] = []

    def begin(self, call: Call) -> None:
        """Let the messages of a call carry its place to the endpoint."""
        call.messages = [
            self._with_context(intent.unit, message)
            for intent, message in zip(call.intents, call.messages, strict=True)
        ]

    def answered(self, call: Call, intent: Intent, answer: Answer) -> None:
        """Note what came of one message of a call; it counts once it is committed."""
        called = self._under_way.pop(intent.unit, None)
        if called is None:
            return
        outcome, _ = read(answer, is_idempotent=call.endpoint.idempotent, is_free=False)
        ended_ns = called.began_ns + round(call.took_seconds * 1_000_000_000)
        name = call.endpoint.name
        self._ended.append(_Ended(intent.unit, called, name, answer, outcome, ended_ns))

    def settled(self, number: int | None) -> None:
        """Hand over what has ended: that is committed, under this arrival number if it has one.

        A failure always has: its later tries find the span of the first one by it.
        """
        ended, self._ended = self._ended, []
        if ended:
            now = self._tracer.now()
            self._tracer.ended([span for one in ended for span in self._spans(one, number, now)])

    def _with_context(self, unit: Unit, message: OutboundMessage) -> OutboundMessage:
        traced = self._places.traced(unit, 0)
        if traced is None:
            return message
        note_trace(unit, traced)
        context = self._tracer.new_span(traced.own)
        self._under_way[unit] = _Called(traced, context, self._tracer.now())
        headers = {name: text for name, text in message.headers.items() if name not in NAMES}
        told = {name: (value or b"").decode() for name, value in headers_of(context)}
        return replace(message, headers=headers | told)

    def _spans(self, ended: _Ended, number: int | None, now: int) -> Sequence[Span]:
        called = ended.called
        traced = None if number is None else self._places.traced(ended.unit, number)
        if traced is None:
            own = self._tracer.new_span(called.traced.own)
            traced = Traced(called.traced.creation, own)
        times = (called.began_ns, max(now, ended.ended_ns))
        process = process_span(self._places, ended.unit, traced, ended.outcome, times)
        call = Span(
            name=f"call {ended.endpoint}",
            kind=Kind.CLIENT,
            context=called.context,
            parent=traced.own,
            start_ns=called.began_ns,
            end_ns=ended.ended_ns,
            attributes=_attributes(ended),
            error=process.error,
        )
        return process, call


def _attributes(ended: _Ended) -> dict[str, Attribute]:
    told: dict[str, Attribute] = {
        spans.ENDPOINT: ended.endpoint,
        spans.MESSAGE_ID: ended.unit.message_id,
    }
    if ended.answer.status is not None:
        told[spans.STATUS] = ended.answer.status
    return told
