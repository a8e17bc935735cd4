"""The sections of an encoded AMQP message, as far as the library does not tell of them.

A message begins with a header and with annotations of its delivery: how often it was delivered
stands there. Annotations of the message follow, and a footer ends it. What stands between them is
the bare message, which nobody may change (AMQP 1.0, part 3.2).
"""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

# Header and annotations of the delivery; annotations, properties and those of the application.
OF_DELIVERY: Final = (0x70, 0x71)
BEFORE_BARE: Final = (*OF_DELIVERY, 0x72)
BEFORE_BODY: Final = (*BEFORE_BARE, 0x73, 0x74)
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78
BODY: Final = (DATA, SEQUENCE, VALUE)
NULL = 0x40
NAMES: Final = {
    0x70: b"amqp:header:list",
    0x71: b"amqp:delivery-annotations:map",
    0x72: b"amqp:message-annotations:map",
    0x73: b"amqp:properties:list",
    0x74: b"amqp:application-properties:map",
    DATA: b"amqp:data:binary",
    SEQUENCE: b"amqp:amqp-sequence:list",
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
_SMALL: Final = b"\x00\x53"
# No more are read of a message: an empty one takes five bytes, and the connection waits meanwhile.
MOST_SECTIONS: Final = 65_536
# Of lists and maps: by how many bytes their constructor is followed that tell their size.
_SIZES: Final = {0x45: 0, 0xC0: 1, 0xC1: 1, 0xD0: 4, 0xD1: 4}
# Of each value: how long it is, or how many bytes tell that, by the first half of its constructor.
_LENGTHS: Final = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_LENGTHS_TOLD: Final = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
_BINARY: Final = {0xA0: 1, 0xB0: 4}


class Section(NamedTuple):
    """A section: its code, its bytes as they came, and where in them its value begins."""

    code: int
    data: bytes
    value: int

    def binary(self) -> bytes:
        """The value of a section of data. Raises ValueError where it is no binary."""
        size_bytes = _BINARY.get(self.data[self.value])
        if size_bytes is None:
            raise ValueError("a section of data is no binary")
        return self.data[self.value + 1 + size_bytes :]


def sections_of(data: bytes) -> Iterator[Section]:
    """Yield what stands behind the header and the like.

    Raises ValueError at what is none, and beyond MOST_SECTIONS.
    """
    return _sections(data, _beyond(data, OF_DELIVERY))


def bare(data: bytes) -> bytes:
    """Return the bare message; never raises.

    Where it breaks off, or has too many sections, that is all behind annotations.
    """
    begin = end = _beyond(data, BEFORE_BARE)
    try:
        for section in _sections(data, begin):
            if section.code == FOOTER:
                break
            end += len(section.data)
    except ValueError:
        end = len(data)
    return data[begin:end]


def body(data: bytes) -> bytes:
    """Return the sections of the body; never raises.

    Where one breaks off, or there are too many, that is the bare message.
    """
    try:
        return b"".join(part.data for part in sections_of(data) if part.code in BODY)
    except ValueError:
        return bare(data)


def _sections(data: bytes, begin: int) -> Iterator[Section]:
    for _ in range(MOST_SECTIONS):
        if begin >= len(data):
            return
        code, value = _described_at(data, begin)
        end = _end_of_value(data, value) if code else None
        if end is None or end > len(data):
            raise ValueError("a section breaks off, or is none")
        yield Section(code, data[begin:end], value - begin)
        begin = end
    if begin < len(data):
        raise ValueError(f"it has more than {MOST_SECTIONS:,} sections")


def _described_at(data: bytes, begin: int) -> tuple[int, int]:
    """Which section begins there, and where its value does; of no section the code is 0."""
    # The way in which all write it: a message may have thousands of sections.
    at = begin + len(_SMALL)
    if data.startswith(_SMALL, begin) and at < len(data) and data[at] in NAMES:
        return data[at], at + 1
    found = ((code, _described(data, begin, code)) for code in NAMES)
    return next(((code, at) for code, at in found if at is not None), (0, begin))


def _end_of_value(data: bytes, begin: int) -> int | None:
    """Where a value ends; None for one that is described once more, or is none."""
    kind = data[begin] >> 4 if begin < len(data) else 0
    if kind in _LENGTHS:
        return begin + 1 + _LENGTHS[kind]
    if kind not in _LENGTHS_TOLD:
        return None
    at = begin + 1 + _LENGTHS_TOLD[kind]
    return at + int.from_bytes(data[begin + 1 : at])


def beyond_delivery(data: bytes) -> bytes:
    """Return what stands behind the header and annotations of the delivery; never raises."""
    return data[_beyond(data, OF_DELIVERY) :]


def has_body(data: bytes) -> bool:
    """Return whether an encoded message has one, be it readable or not; null is none."""
    rest = _beyond(data, BEFORE_BODY)
    if (at := _described(data, rest, VALUE)) is not None:
        return data[at : at + 1] != bytes([NULL])
    return rest < len(data) and _described(data, rest, FOOTER) is None


def _beyond(data: bytes, codes: Collection[int]) -> int:
    """Where such sections end with which the bytes begin, or the last of MOST_SECTIONS does.

    A sender may repeat a small one very often: nothing is copied on the way.
    """
    begin = 0
    for _ in range(MOST_SECTIONS):
        end = _end(data, begin, codes)
        if end is None:
            break
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
