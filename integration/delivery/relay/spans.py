"""The spans of what the relay has sent: one for each traced message of a batch."""

from collections.abc import Sequence

from integration.delivery.relay.ports import OutgoingRow
from integration.tracing import spans
from integration.tracing.context import context_of
from integration.tracing.spans import Attribute, Kind, Span, Tracer


def hand_over(tracer: Tracer, rows: Sequence[OutgoingRow], began_ns: int) -> None:
    """Tell of the rows of a batch that Kafka has committed just now."""
    ended_ns = tracer.now()
    sent = [_sent(tracer, row, began_ns, ended_ns, len(rows)) for row in rows]
    tracer.ended([span for span in sent if span is not None])


def _sent(
    tracer: Tracer, row: OutgoingRow, began_ns: int, ended_ns: int, count: int
) -> Span | None:
    """The message was created where its headers say, in whatever wrote it to the outbox."""
    creation = context_of(row.headers)
    if creation is None or not tracer.keeps(creation):
        return None
    told: dict[str, Attribute] = {
        spans.SYSTEM: spans.KAFKA,
        spans.OPERATION: "send",
        spans.OPERATION_TYPE: "send",
        spans.DESTINATION: row.topic,
        spans.BATCH: count,
    }
    message_id = dict(row.headers).get("sluice-message-id")
    if message_id:
        told[spans.MESSAGE_ID] = message_id.decode("utf-8", "replace")
    return Span(
        name=f"send {row.topic}",
        kind=Kind.CLIENT,
        context=tracer.new_span(creation),
        parent=creation,
        links=[creation],
        start_ns=began_ns,
        end_ns=ended_ns,
        attributes=told,
    )
