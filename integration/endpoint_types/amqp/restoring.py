"""What a message had when it came from a JMS broker, given back from its record's headers."""

import base64
import json
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from proton import byte, char, float32, int32, short, symbol

from integration.jms_headers import BODY, ENTRY_TYPES, TYPES, JmsBody

# JMS, 3.8.1.1: names of properties are those of Java; names that begin with JMS are its own.
_PROPERTY: Final = re.compile(r"(?!JMS)[A-Za-z_$][A-Za-z0-9_$]*", re.ASCII)
_TYPES: Final[Mapping[str, Callable[[str], Any]]] = {
    "boolean": lambda text: text == "true",
    "byte": lambda text: byte(int(text)),
    "short": lambda text: short(int(text)),
    "int": lambda text: int32(int(text)),
    "long": int,
    "float": lambda text: float32(_single(float(text))),
    "double": float,
}
# What JSON has as texts.
_OF_TEXTS: Final[Mapping[str, Callable[[str], Any]]] = {
    "bytes": lambda text: base64.b64decode(text, validate=True),
    "char": lambda text: char(chr(ord(text))),
}
# Artemis has no conversion for bytes in a stream, and takes such a message away from receivers of
# its own protocol without a word (CoreStreamMessageWrapper.writeObject): they stay a text.
LOST_IN_STREAMS: Final = "bytes"
_OF_NUMBERS: Final = ("byte", "short", "int", "float", "double")
_KINDS: Final[Mapping[str, int]] = {
    JmsBody.NONE: 0,
    JmsBody.OBJECT: 1,
    JmsBody.MAP: 2,
    JmsBody.BYTES: 3,
    JmsBody.STREAM: 4,
    JmsBody.TEXT: 5,
}
JAVA_OBJECT: Final = symbol("application/x-java-serialized-object")


def properties_of(headers: Mapping[str, str]) -> dict[str, Any]:
    """The headers that can be properties, with the types that they had.

    Raises ValueError, OverflowError for one that is not of its type.
    """
    types = _types(headers.get(TYPES, ""), dict)
    return {
        name: _type_named(types.get(name))(text)
        for name, text in headers.items()
        if _PROPERTY.fullmatch(name)
    }


def restore(made: Any, headers: Mapping[str, str]) -> None:
    """Give a message the fields that it had. Raises ValueError for one that is none."""
    made.subject = headers.get("JMSType") or made.subject
    made.correlation_id = headers.get("JMSCorrelationID") or made.correlation_id
    made.reply_to = headers.get("JMSReplyTo") or made.reply_to
    made.group_id = headers.get("JMSXGroupID") or made.group_id
    if sequence := headers.get("JMSXGroupSeq"):
        made.group_sequence = int(sequence)
    if priority := headers.get("JMSPriority"):
        made.priority = int(priority)
    if user := headers.get("JMSXUserID"):
        made.user_id = user.encode()


def body_of(body: bytes, headers: Mapping[str, str]) -> tuple[Any, JmsBody, bool] | None:
    """The body, its kind, and whether it is a data section; None where the kind is not known.

    Raises ValueError for one that is not of the kind that the headers tell, RecursionError for one
    that is nested too deeply.
    """
    try:
        kind = JmsBody(headers.get(BODY, ""))
    except ValueError:
        return None
    match kind:
        case JmsBody.NONE:
            return None, kind, False
        case JmsBody.TEXT:
            return body.decode(), kind, False
        case JmsBody.MAP | JmsBody.STREAM:
            return _entries(json.loads(body), kind, headers.get(ENTRY_TYPES, "")), kind, False
        case JmsBody.BYTES | JmsBody.OBJECT:
            return body, kind, True


def number_of(kind: JmsBody) -> byte:
    """JMS's number of a kind, as the annotation has it."""
    return byte(_KINDS[kind])


def _entries(body: object, kind: JmsBody, told: str) -> object:
    match body:
        case dict() if kind is JmsBody.MAP:
            return _of_map(body, told)
        case list() if kind is JmsBody.STREAM:
            return _of_stream(body, told)
        case _:
            raise ValueError(f"it is no {kind} any more")


def _of_map(entries: Mapping[str, Any], told: str) -> Mapping[str, Any]:
    """Give entries the types that they had; a person may have added some, and removed others.

    Raises ValueError for one that can be of its type no more.
    """
    types = _types(told, dict)
    return {name: _typed(value, types.get(name)) for name, value in entries.items()}


def _of_stream(entries: Sequence[Any], told: str) -> Sequence[Any]:
    """Likewise by place, unless a person has added or removed some. Raises ValueError."""
    types = _types(told, list)
    if len(types) != len(entries):
        return entries
    return [
        value if kind == LOST_IN_STREAMS else _typed(value, kind)
        for value, kind in zip(entries, types, strict=True)
    ]


def _typed(value: Any, kind: object) -> Any:
    if value is None or not isinstance(kind, str):
        return value
    try:
        if kind in _OF_TEXTS:
            return _OF_TEXTS[kind](value)
        return _TYPES[kind](str(value)) if kind in _OF_NUMBERS else value
    except (TypeError, ValueError, OverflowError) as problem:
        raise ValueError(f"an entry is no {kind} any more") from problem


def _type_named(kind: object) -> Callable[[str], Any]:
    return _TYPES.get(kind, str) if isinstance(kind, str) else str


def _single(value: float) -> float:
    """A number that a float of four bytes holds; AMQP's would be infinite. Raises OverflowError."""
    struct.pack(">f", value)
    return value


def _types(told: str, wanted: type[Any]) -> Any:
    """What a header tells of types, as this kind of collection; empty where it is another thing.

    A property of a JMS client may have the header's name, too, and holds what it likes.
    """
    try:
        types = json.loads(told or "null")
    except (ValueError, RecursionError):
        types = None
    return types if isinstance(types, wanted) else wanted()
