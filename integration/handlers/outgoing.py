"""One outgoing message as it is written: its value, its headers, and whether it is too large."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from integration import envelope as envelopes
from integration.envelope.retry_wrapper import wrap
from integration.handlers.channels import Target
from integration.handlers.payloads import PayloadTooLargeError
from integration.values import Headers, Outgoing

MESSAGE_ID: Final = "sluice-message-id"
INTERFACE: Final = "sluice-interface"
SENDER: Final = "sluice-sender"
DESTINATION: Final = "sluice-destination"
CAUSE: Final = "sluice-cause"
OURS: Final = frozenset({MESSAGE_ID, INTERFACE, SENDER, DESTINATION, CAUSE})
# The bytes of a record in Kafka beside its key, value and headers; a little more than that.
_RECORD_BYTES: Final = 100
GivenHeaders = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about one outgoing message beside its payload.

    `cause` is the id of the consumed message that it answers, None outside handlers.
    """

    target: Target
    interface: str
    message_id: str
    cause: str | None

    def headers(self) -> Iterator[tuple[str, bytes]]:
        yield MESSAGE_ID, self.message_id.encode()
        yield INTERFACE, self.interface.encode()
        yield SENDER, str(settings.SLUICE_DEPLOYMENT).encode()
        if self.target.system:
            yield DESTINATION, self.target.system.encode()
        if self.cause is not None:
            yield CAUSE, self.cause.encode()


def record(
    facts: Facts,
    text: str | bytes | None,
    key: bytes | None,
    *,
    headers: GivenHeaders,
    wrapped: bool,
) -> Outgoing:
    """The row for the outbox. Raises UnwritableMessage, and PayloadTooLargeError."""
    target = facts.target
    row = Outgoing(
        topic=target.topic,
        value=_value(text, facts, wrapped=wrapped),
        key=key,
        headers=_headers(headers, facts),
        provider_id=target.provider_id,
        message_id=facts.message_id,
        strict_queue=target.strict,
    )
    if target.max_bytes is not None:
        _refuse_too_large(row, facts, target.max_bytes, is_packed=wrapped)
    return row


def _value(text: str | bytes | None, facts: Facts, *, wrapped: bool) -> bytes | None:
    value = _unwrapped(text, facts, wrapped=wrapped)
    if value is None or facts.target.subject:
        return value
    return wrap(value, 0) if facts.target.retry_wrapper else value


def _unwrapped(text: str | bytes | None, facts: Facts, *, wrapped: bool) -> bytes | None:
    if text is None:
        return None
    if not wrapped:
        return text.encode() if isinstance(text, str) else text
    message = envelopes.Outgoing(
        interface=facts.interface,
        sender=settings.SLUICE_DEPLOYMENT,
        destination=facts.target.system,
        topic=facts.target.topic,
        message_id=facts.message_id,
        payload=text,
    )
    return envelopes.write(message)


def _headers(headers: GivenHeaders, facts: Facts) -> Headers:
    """The author's headers without any of our names, and ours."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    own = [
        (name, value.encode() if isinstance(value, str) else value)
        for name, value in pairs
        if name.lower() not in OURS
    ]
    return [*own, *facts.headers()]


def _refuse_too_large(row: Outgoing, facts: Facts, most: int, *, is_packed: bool) -> None:
    """Kafka judges what is compressed: a bare payload is refused only when that cannot help."""
    value = row.value or b""
    rest = sum(len(name) + len(text or b"") for name, text in row.headers) + len(row.key or b"")
    if len(value) + rest + _RECORD_BYTES <= most:
        return
    size = rest + _RECORD_BYTES + len(value if is_packed else zlib.compress(value, 1))
    if size > most or len(value) > max(most, envelopes.DEFAULT.max_bytes):
        where = f"the topic {facts.target.topic}"
        raise PayloadTooLargeError(facts.interface, len(value) + rest, most, where)
