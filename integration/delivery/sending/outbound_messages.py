"""From a message of the topic to what an endpoint gets."""

from datetime import UTC, datetime
from typing import Final

from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import Unit
from integration.endpoints.port import OutboundMessage
from integration.envelope import JSON
from integration.policy.failure import Failure, FailureClass

NOTHING: Final = Failure(
    FailureClass.PERMANENT,
    "NOTHING_TO_DELIVER",
    "The message has no value (a tombstone): a reader of the topic can use it, an endpoint "
    "gets nothing from it.",
)


def message(queue: QueueSnapshot, unit: Unit, attempt: int) -> OutboundMessage:
    """The payload out of its envelope, with all that a template of the endpoint may name."""
    record, document = unit.record, None if unit.message is None else unit.message.document
    payload = b"" if document is None else document.payload
    stamp = record.timestamp_ms
    return OutboundMessage(
        message_id=unit.message_id,
        interface=unit.interface,
        system=queue.system or "",
        body=payload.encode() if isinstance(payload, str) else payload,
        content_type=JSON if document is None else document.mimetype,
        key=_text(record.key),
        topic=queue.topic,
        partition=record.partition,
        offset=record.offset,
        attempt=attempt,
        sent_at=None if stamp is None else datetime.fromtimestamp(stamp / 1000, UTC),
        headers={name: _text(value) for name, value in record.headers or ()},
    )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")
