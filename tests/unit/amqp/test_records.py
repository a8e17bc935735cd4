"""What becomes a record of an encoded message, and what is held as it came."""

import struct

import pytest
from proton import Message

from integration.amqp.records import arrived
from integration.delivery.jms_flaws import jms_flaw

pytestmark = pytest.mark.fast
# What stands before a body.
PROPERTIES = bytes(Message(id="m1").encode())
DATA, SEQUENCE, VALUE = b"\x00\x53\x75", b"\x00\x53\x76", b"\x00\x53\x77"
FOOTER = b"\x00\x53\x78\xc1\x01\x00"


def numbers(count: int) -> bytes:
    """A list of small numbers."""
    return b"\xd0" + struct.pack(">II", 4 + 2 * count, count) + b"\x54\x01" * count


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (DATA + b"\xa0\x01a", b"a"),
        (DATA + b"\xa0\x01a" + DATA + b"\xb0\x00\x00\x00\x01b", b"ab"),
        (DATA + b"\xa0\x01a" + b"\x00\x80" + bytes(7) + b"\x75\xa0\x02bc" + FOOTER, b"abc"),
        (DATA + b"\xa0\x01a" + DATA + b"\xa0\x00", b"a"),
        (SEQUENCE + b"\xc0\x03\x01\x54\x01", b"[1]"),
    ],
    ids=["one", "two", "three ways", "an empty one", "sequence"],
)
def test_a_body_of_several_sections_is_whole(body: bytes, value: bytes) -> None:
    record, _ = arrived(PROPERTIES + body, 0)
    assert (jms_flaw(record), record.value) == (None, value)


@pytest.mark.parametrize(
    "rest",
    [
        (SEQUENCE + b"\xc0\x03\x01\x54\x01") * 2,
        (VALUE + b"\xa1\x01x") * 2,
        DATA + b"\xa0\x01a" + VALUE + b"\xa1\x01x",
        DATA + b"\xa0\x01a" + DATA + b"\xa1\x01x",
        VALUE + b"\xa1\x01x\x01",
        VALUE + numbers(70_000),
        VALUE + b"\xc0\x07\x03\x54\x01\x54\x01\x01\x01",
        VALUE + b"\xc1\x08\x04\x54\x01\x54\x01\x54\x02\x01",
        VALUE + b"\xc0\x05\x01\x54\x01\x54\x01",
        b"\x00\x53\x74\xc1\x0a\x04\xa1\x01a\x54\x01\xa1\x01b\x01" + VALUE + b"\xa1\x01x",
    ],
    ids=[
        "sequences",
        "values",
        "bytes and a value",
        "bytes and a text",
        "more behind it",
        "too many entries",
        "an entry of a list",
        "an entry of a map",
        "more than it counts",
        "a property",
    ],
)
def test_what_was_read_in_part_is_held_as_it_came(rest: bytes) -> None:
    record, _ = arrived(PROPERTIES + rest, 0)
    assert record.value == PROPERTIES + rest
    assert jms_flaw(record).code == "JMS_NOT_READ"
