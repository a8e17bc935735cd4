"""What becomes a record of an encoded message, and what is held as it came."""

import json
import struct
import time
from collections.abc import Callable
from typing import Any

import pytest
from proton import Message, byte, char, decimal128, float32, int32, short

from integration.amqp.records import arrived
from integration.delivery.jms_flaws import jms_flaw

pytestmark = pytest.mark.fast
# What stands before a body.
PROPERTIES = bytes(Message(id="m1").encode())
DATA, SEQUENCE, VALUE = b"\x00\x53\x75", b"\x00\x53\x76", b"\x00\x53\x77"
FOOTER = b"\x00\x53\x78\xc1\x01\x00"
HEADER = b"\x00\x53\x70\x45"


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
        (DATA + b"\xa0\x00") * 70_000,
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
        "too many sections",
    ],
)
def test_what_was_read_in_part_is_held_as_it_came(rest: bytes) -> None:
    record, _ = arrived(PROPERTIES + rest, 0)
    assert record.value == PROPERTIES + rest
    assert jms_flaw(record).code == "JMS_NOT_READ"


@pytest.mark.parametrize(
    "data",
    [
        lambda n: PROPERTIES + (DATA + b"\xa0\x00") * n,
        lambda n: HEADER * n + PROPERTIES,
        lambda n: HEADER * n,
    ],
    ids=["body", "header", "no id"],
)
def test_a_message_of_very_many_sections_is_soon_given_up(data: Callable[[int], bytes]) -> None:
    """Who reads it keeps all its connection waiting."""
    many = data(4_000_000)
    began = time.process_time()
    assert jms_flaw(arrived(many, 0).record).code == "JMS_NOT_READ"
    assert time.process_time() - began < 3.0


ENTRIES = {
    "tiny": byte(-1),
    "small": short(300),
    "whole": int32(7),
    "far": 7,
    "share": float32(0.1),
    "price": 0.1,
    "letter": char("字"),
    "raw": b"\x00\xff",
    "text": "AP8=",
    "none": None,
    "yes": True,
}
TYPES = {
    "tiny": "byte",
    "small": "short",
    "whole": "int",
    "share": "float",
    "price": "double",
    "letter": "char",
    "raw": "bytes",
}


def entry_types(body: Any) -> Any:
    record, _ = arrived(bytes(Message(id="m1", body=body).encode()), 0)
    told = dict(record.headers or ()).get("jms-body-types")
    return None if told is None else json.loads(told)


def test_the_types_that_json_does_not_tell_are_told_beside_a_body() -> None:
    assert entry_types(ENTRIES) == TYPES
    assert entry_types(list(ENTRIES.values())) == [TYPES.get(name, "") for name in ENTRIES]
    assert [entry_types(body) for body in ({"far": 7}, [], "text", b"\x00", None)] == [None] * 5


def test_types_that_would_take_most_of_a_message_are_not_told() -> None:
    assert len(entry_types([short(1)] * 3_000)) == 3_000
    assert entry_types([short(1)] * 10_000) is None


BEFORE = b"\x00\x53\x70\xc0\x02\x01\x41"
ANNOTATIONS = b"\x00\x53\x72\xc1\x01\x00"


def receipt(body: object, id_: str = "m1", **fields: object) -> bytes | None:
    return arrived(bytes(Message(id=id_, body=body, **fields).encode()), 0).receipt


def test_a_receipt_tells_of_the_id_and_of_what_is_under_it() -> None:
    first = receipt("a")
    assert first == receipt("a") == receipt("a", delivery_count=3, ttl=2.0, priority=9)
    assert first == receipt("a", properties={"x": 1}), "a broker may write them anew"
    assert first not in {receipt("b"), receipt("a", "m2")}
    unread = receipt(decimal128(bytes(16)))
    assert unread == receipt(decimal128(bytes(16)), delivery_count=1)
    assert unread not in {receipt(decimal128(b"x" * 16)), first}


def test_a_receipt_is_of_what_nobody_may_change_on_the_way() -> None:
    bare = b"\x00\x53\x73\xc0\x05\x01\xa1\x02m1" + VALUE + b"\xa1\x01x"
    ways = (bare, BEFORE + bare, BEFORE + ANNOTATIONS + bare, bare + FOOTER)
    assert len({arrived(way, 0).receipt for way in ways}) == 1
    assert {arrived(way, 0).record.value for way in ways} == {b"x"}
