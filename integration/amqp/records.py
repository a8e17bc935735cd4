"""JMS messages as records of Kafka: the same message, with what JMS keeps beside it in headers.

The mapping of AMQP's fields to JMS's headers is that of "AMQP JMS Mapping" (OASIS working draft).
A property becomes a header of its name. Headers hold texts, so one more tells the types of those
that were none, and another one those of a body's entries that JSON has no types for: who sends them
to a JMS broker again can give them back.
"""

import base64
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from proton import (
    Data,
    Message,
    ProtonException,
    byte,
    char,
    decimal32,
    decimal64,
    decimal128,
    float32,
    int32,
    short,
    symbol,
    ulong,
)

from integration.amqp import sections
from integration.amqp.sections import bare, beyond_delivery, body, has_body
from integration.amqp.waiting import USUAL_PRIORITY, JmsMessage, Property
from integration.envelope.fields import MAX_FIELD_LENGTH
from integration.jms_headers import (
    BODY,
    ENTRY_TYPES,
    FLAW,
    MESSAGE_ID,
    TYPES,
    FlawCode,
    JmsBody,
)
from integration.policy.forwards import TRAIL, TRAIL_PROPERTY
from integration.values import Record, content_hash

MESSAGE_TYPE: Final = symbol("x-opt-jms-msg-type")
BODIES: Final = {
    0: JmsBody.NONE,
    1: JmsBody.OBJECT,
    2: JmsBody.MAP,
    3: JmsBody.BYTES,
    4: JmsBody.STREAM,
    5: JmsBody.TEXT,
}
# The library makes a symbol of what is not there, too.
NO_CONTENT_TYPE: Final = "None"
TYPE_NAMES: Final[dict[type, str]] = {
    bool: "boolean",
    byte: "byte",
    short: "short",
    int32: "int",
    int: "long",
    float32: "float",
    float: "double",
}
# What comes back from JSON as a long, a double or a text; a double, once it is corrected to 5.
LOST_TYPES: Final[dict[type, str]] = {
    **{kind: TYPE_NAMES[kind] for kind in (byte, short, int32, float32, float)},
    char: "char",
    bytes: "bytes",
    memoryview: "bytes",
}
# Kafka counts headers into the size of a message. Beyond this they are not told.
MOST_ENTRY_TYPES_BYTES: Final = 65_536
# The first half of their constructors.
LISTS_AND_MAPS: Final = (0xC, 0xD)
# What the library and we say of what cannot be read; the last one of what is too deep.
UNREADABLE: Final = (
    *(ProtonException, ValueError, TypeError, OverflowError, KeyError, AttributeError),
    RecursionError,
)


class Arrived(NamedTuple):
    """A record, and what tells the message from all others; None where it has no id."""

    record: Record
    receipt: bytes | None


def arrived(data: bytes, offset: int) -> Arrived:
    """Make a record of a message as it came. Never raises: what is not read is kept as it is."""
    message = Message()
    try:
        _decode(message, data)
        id_ = id_text(message.id)
    except UNREADABLE as problem:
        record = _not_read(data, offset, problem, _known_id(message))
        return Arrived(record, content_hash(bare(data)))
    # Who sends another body under the same id has corrected it. Properties do not count: a broker
    # that converts its messages may give them in another order after a restart.
    receipt = content_hash(id_.encode() + b"\0" + body(data)) if id_ else None
    try:
        _read_whole(message, data)
        value = _value(message)
        headers = list(_headers(message, id_))
        key = message.group_id.encode() if message.group_id else None
        stamp = int(message.creation_time * 1_000) or None
    except UNREADABLE as problem:
        return Arrived(_not_read(data, offset, problem, id_), receipt)
    if receipt is None:
        headers.append((FLAW, FlawCode.NO_MESSAGE_ID.encode()))
    return Arrived(Record(0, offset, stamp, key, value, headers), receipt)


def former_receipt(record: Record) -> bytes:
    """By what the version before knew a message: by its id alone, whatever it holds."""
    ids = (value for name, value in record.headers or () if name == "JMSMessageID")
    return content_hash(next(ids, None) or beyond_delivery(record.value or b""))


def in_words(data: bytes) -> JmsMessage:
    """Make of a message as it came what people are shown. Never raises."""
    record = arrived(data, 0).record
    headers, size = dict(record.headers or ()), len(data)
    kind = headers.get(BODY)
    if kind is None:
        # It could not be read; the record is what came, and says why.
        known = headers.get("JMSMessageID") or b""
        return JmsMessage(record=record, size=size, message_id=known.decode())
    message = Message()
    message.decode(data)
    return JmsMessage(
        record=record,
        size=size,
        kind=kind.decode(),
        message_id=id_text(message.id),
        jms_type=message.subject or "",
        priority=message.priority,
        deliveries=message.delivery_count,
        sent_at=_moment(message.creation_time),
        expires_at=_moment(message.expiry_time),
        correlation_id=id_text(message.correlation_id),
        reply_to=message.reply_to or "",
        group_id=message.group_id or "",
        group_sequence=int(message.group_sequence or 0),
        user=(message.user_id or b"").decode("utf-8", "replace"),
        properties=tuple(_properties(message)),
    )


def _moment(seconds: float) -> datetime | None:
    """A time that a sender has written, whatever it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (ValueError, OverflowError, OSError):
        return None


def _properties(message: Any) -> Iterator[Property]:
    for name, value in (message.properties or {}).items():
        if value is not None:
            type_ = "String" if isinstance(value, str) else _type_of(value)
            yield Property(str(name), type_, _property(value).decode("utf-8", "replace"))


def _type_of(value: Any) -> str:
    """The name of the type in JMS, or in the library where JMS has none."""
    return TYPE_NAMES.get(type(value)) or type(value).__name__


def _decode(message: Any, data: bytes) -> None:
    """Raises ProtonException, ValueError, RecursionError."""
    message.decode(data)
    # The library takes what breaks off, or is none at all, for a message without that.
    if message.body is None and message.id is None:
        raise ValueError("it has neither an id nor a body")
    if message.body is None and has_body(data):
        raise ValueError("its body breaks off")


def _read_whole(message: Any, data: bytes) -> None:
    """Join the sections of its body. Raises ProtonException, ValueError where a part is not read.

    Of several sections the library keeps the last one. What it cannot read in a list or map, or
    what is beyond its 65 thousand values, it leaves out and does not say so.
    """
    body = []
    for section in sections.sections_of(data):
        counts = section.data[section.value] >> 4 in LISTS_AND_MAPS
        if counts and Data().decode(section.data) != len(section.data):
            raise ValueError("a list or map has more entries than it counts")
        if section.code in sections.BODY:
            body.append(section)
    if len(body) > 1 and {section.code for section in body} != {sections.DATA}:
        raise ValueError("its body has several sections")
    if len(body) > 1:
        message.body = b"".join(part.binary() for part in body)


def _known_id(message: Any) -> str:
    """The id of one that was not read to its end; empty where it was not read so far."""
    try:
        return id_text(message.id)
    except UNREADABLE:
        return ""


def _not_read(data: bytes, offset: int, problem: Exception, id_: str) -> Record:
    """It is kept as it came, under its id."""
    why = f"{FlawCode.NOT_READ}: {type(problem).__name__}: {problem}"[:MAX_FIELD_LENGTH]
    headers = [(name, text.encode()) for name, text in _ids(id_) if text]
    return Record(0, offset, None, None, data, [*headers, (FLAW, why.encode("utf-8", "replace"))])


def id_text(id_: Any) -> str:
    """A message or correlation id as JMS clients show it; empty where there is none."""
    if id_ is None:
        return ""
    if isinstance(id_, uuid.UUID):
        return f"ID:AMQP_UUID:{id_}"
    if isinstance(id_, (ulong, int)):
        return f"ID:AMQP_ULONG:{int(id_)}"
    if isinstance(id_, (bytes, memoryview)):
        return f"ID:AMQP_BINARY:{bytes(id_).hex().upper()}"
    return str(id_)


def _value(message: Any) -> bytes:
    """The body. Raises ValueError, TypeError for one that JSON has no word for."""
    body = message.body
    _refuse_decimals(body)
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, (bytes, memoryview)):
        return bytes(body)
    return json.dumps(body, default=_plain, ensure_ascii=False, allow_nan=False).encode()


def _refuse_decimals(value: Any) -> None:
    """Raises TypeError: the library takes their encoding for a whole number, or for bytes."""
    if isinstance(value, (decimal32, decimal64, decimal128)):
        raise TypeError(f"a value of AMQP's type {type(value).__name__}")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for part in value:
            _refuse_decimals(part)


def _plain(value: Any) -> Any:
    """What JSON itself does not know. Raises TypeError."""
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, (uuid.UUID, char)):
        return str(value)
    raise TypeError(f"a value of AMQP's type {type(value).__name__}")


def _headers(message: Any, id_: str) -> Iterator[tuple[str, bytes]]:
    kind = (message.annotations or {}).get(MESSAGE_TYPE)
    body = None if kind is None else BODIES.get(int(kind))
    yield BODY, (body or _kind_of(message)).encode()
    for name, text in _standard(message, id_):
        if text:
            yield name, text.encode()
    types: dict[str, str] = {}
    for name, value in (message.properties or {}).items():
        if value is None or name == FLAW:
            continue
        if name == TRAIL_PROPERTY:
            yield TRAIL, str(value).encode()
            continue
        if not isinstance(value, str):
            types[str(name)] = _type_of(value)
        yield str(name), _property(value)
    if types:
        yield TYPES, json.dumps(types, sort_keys=True).encode()
    yield from _entry_types(message.body)


def _entry_types(body: Any) -> Iterator[tuple[str, bytes]]:
    types: dict[str, str] | list[str] = {}
    if isinstance(body, dict):
        lost = ((str(name), LOST_TYPES.get(type(value))) for name, value in body.items())
        types = {name: kind for name, kind in lost if kind}
    if isinstance(body, list):
        types = [LOST_TYPES.get(type(value), "") for value in body]
    told = json.dumps(types).encode()
    if any(types) and len(told) <= MOST_ENTRY_TYPES_BYTES:
        yield ENTRY_TYPES, told


def _kind_of(message: Any) -> JmsBody:
    """What kind of JMS message a client would make of it."""
    body = message.body
    if body is None:
        return JmsBody.NONE
    if isinstance(body, str):
        return JmsBody.TEXT
    if isinstance(body, (bytes, memoryview)):
        return JmsBody.BYTES
    return JmsBody.MAP if isinstance(body, dict) else JmsBody.STREAM


def _ids(id_: str) -> Iterator[tuple[str, str]]:
    yield "JMSMessageID", id_
    if len(id_.encode()) <= MAX_FIELD_LENGTH and "\0" not in id_:
        yield MESSAGE_ID, id_


def _standard(message: Any, id_: str) -> Iterator[tuple[str, str]]:
    yield from _ids(id_)
    yield "JMSCorrelationID", id_text(message.correlation_id)
    yield "JMSReplyTo", message.reply_to or ""
    yield "JMSDestination", message.address or ""
    yield "JMSType", message.subject or ""
    yield "JMSPriority", "" if message.priority == USUAL_PRIORITY else str(message.priority)
    yield "JMSTimestamp", str(int(message.creation_time * 1_000) or "")
    yield "JMSExpiration", str(int(message.expiry_time * 1_000) or "")
    yield "JMSXUserID", (message.user_id or b"").decode("utf-8", "replace")
    yield "JMSXGroupID", message.group_id or ""
    yield "JMSXGroupSeq", str(int(message.group_sequence or 0) or "")
    content = str(message.content_type)
    yield "content-type", "" if content == NO_CONTENT_TYPE else content


def _property(value: Any) -> bytes:
    """Raises TypeError for one that a header has no word for."""
    _refuse_decimals(value)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value))
    # The library's own numbers show their types as well.
    if isinstance(value, int):
        return str(int(value)).encode()
    if isinstance(value, float):
        return repr(float(value)).encode()
    return str(value).encode()
