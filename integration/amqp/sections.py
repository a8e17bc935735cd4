"""The sections of an encoded AMQP message, as far as the library does not tell of them.

A message begins with a header and with annotations of its delivery: how often it was delivered
stands there. What follows is the bare message, which nobody may change (AMQP 1.0, part 3.2).
"""

from collections.abc import Collection
from typing import Final

# Header and annotations of the delivery; annotations, properties and those of the application.
OF_DELIVERY: Final = (0x70, 0x71)
BEFORE_BODY: Final = (*OF_DELIVERY, 0x72, 0x73, 0x74)
VALUE, FOOTER, NULL = 0x77, 0x78, 0x40
NAMES: Final = {
    0x70: b"amqp:header:list",
    0x71: b"amqp:delivery-annotations:map",
    0x72: b"amqp:message-annotations:map",
    0x73: b"amqp:properties:list",
    0x74: b"amqp:application-properties:map",
    VALUE: b"amqp:amqp-value:*",
    FOOTER: b"amqp:footer:map",
}
# A section is a described value; its descriptor may be written in each of these ways.
_DESCRIPTORS: Final = {
    code: (
        bytes([0x00, 0x53, code]),
        bytes([0x00, 0x80, *bytes(7), code]),
        bytes([0x00, 0xA3, len(name), *name]),
    )
    for code, name in NAMES.items()
}
# Of lists and maps: by how many bytes their constructor is followed that tell their size.
_SIZES: Final = {0x45: 0, 0xC0: 1, 0xC1: 1, 0xD0: 4, 0xD1: 4}


def beyond_delivery(data: bytes) -> bytes:
    """Return what stands behind all that a broker may change; never raises."""
    return data[_beyond(data, OF_DELIVERY) :]


def has_body(data: bytes) -> bool:
    """Return whether an encoded message has one, be it readable or not; null is none."""
    rest = _beyond(data, BEFORE_BODY)
    if (at := _described(data, rest, VALUE)) is not None:
        return data[at : at + 1] != bytes([NULL])
    return rest < len(data) and _described(data, rest, FOOTER) is None


def _beyond(data: bytes, codes: Collection[int]) -> int:
    """Where such sections end with which the bytes begin.

    A sender may repeat a small one millions of times: nothing is copied on the way.
    """
    begin = 0
    while (end := _end(data, begin, codes)) is not None:
        begin = end
    return begin


def _end(data: bytes, begin: int, codes: Collection[int]) -> int | None:
    """Where the section ends that begins there; None where none does, or it breaks off."""
    found = (_described(data, begin, code) for code in codes)
    at = next((one for one in found if one is not None), None)
    size_bytes = None if at is None else _SIZES.get(data[at] if at < len(data) else -1)
    if at is None or size_bytes is None:
        return None
    value = at + 1 + size_bytes
    end = value + int.from_bytes(data[at + 1 : value])
    return end if end <= len(data) else None


def _described(data: bytes, begin: int, code: int) -> int | None:
    """Where the value begins of such a section at that place; None where another is there."""
    found = (one for one in _DESCRIPTORS[code] if data.startswith(one, begin))
    return next((begin + len(one) for one in found), None)
