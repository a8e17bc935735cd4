"""A message of a queue as endpoints and their templates get it: the payload out of its envelope."""

from integration.endpoints.port import OutboundMessage
from integration.envelope import JSON
from integration.message import Message
from integration.values import moment_of


def outbound_of(message: Message) -> OutboundMessage:
    """All that a template of an endpoint may name."""
    record, document, text = message.record, message.document, message.text
    return OutboundMessage(
        message_id=message.message_id,
        interface=message.interface,
        system=message.system or "",
        body=text.encode() if isinstance(text, str) else text,
        content_type=JSON if document is None else document.mimetype,
        key=_text(record.key),
        queue=message.queue,
        topic=message.topic,
        partition=record.partition,
        offset=record.offset,
        attempt=message.attempt,
        sent_at=moment_of(record.timestamp_ms),
        headers={name: _text(value) for name, value in message.headers},
    )


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode("utf-8", "replace")
