"""Avro records: read as JSON has them, written back, and refused where they do not fit."""

import json
import struct
import tracemalloc
from datetime import UTC, date, datetime
from datetime import time as clock
from decimal import Decimal
from typing import Any

import pytest

from integration.envelope import Flaw
from integration.formats.limits import FREE_VALUES
from integration.formats.schema import Misfit, UnusableSchemaError
from integration.formats.wire import framed
from tests.support.avro import ORDER, a_schema, an_avro
from tests.support.growth import grows

pytestmark = pytest.mark.fast


def a_record(*fields: tuple[str, Any]) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "R", "fields": named}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


A = {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]}
B = {"type": "record", "name": "B", "fields": [{"name": "x", "type": "int"}]}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}],
}
AT = datetime(2026, 11, 26, 3, 4, 5, 678_000, tzinfo=UTC)

# A type, the value that the library writes, and what a handler gets.
VALUES: dict[str, tuple[Any, Any, Any]] = {
    "int": ("int", -(2**31), -(2**31)),
    "long": ("long", 2**63 - 1, 2**63 - 1),
    "the smallest long": ("long", -(2**63), -(2**63)),
    "double": ("double", 0.1, Decimal("0.1")),
    "float": ("float", 0.1, Decimal("0.1")),
    "a large float": ("float", 3.4028234663852886e38, Decimal("3.4028235e+38")),
    "boolean": ("boolean", True, True),
    "string": ("string", "Zürich 🏔", "Zürich 🏔"),
    "bytes": ("bytes", b"\x00\xff", "AP8="),
    "fixed": ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff", "AP8="),
    "enum": ({"type": "enum", "name": "E", "symbols": ["ON", "OFF"]}, "OFF", "OFF"),
    "array": ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    "no items": ({"type": "array", "items": "int"}, [], []),
    "map": ({"type": "map", "values": "long"}, {"a": 1}, {"a": 1}),
    "null of a union": (["null", "string"], None, None),
    "text of a union": (["null", "string"], "x", "x"),
    "forms apart": (["null", "string", "int", "boolean"], 3, 3),
    "forms alike": ([A, B], ("B", {"x": 1}), {"B": {"x": 1}}),
    "decimal": (
        logical("bytes", "decimal", precision=9, scale=2),
        Decimal("-12.30"),
        Decimal("-12.30"),
    ),
    "date": (logical("int", "date"), date(2026, 11, 26), "2026-11-26"),
    "time": (logical("long", "time-micros"), clock(3, 4, 5, 678), "03:04:05.000678"),
    "moment": (logical("long", "timestamp-millis"), AT, "2026-11-26T03:04:05.678000+00:00"),
    "uuid": (
        logical("string", "uuid"),
        "6f1c2f5e-8f9b-4c62-8d0c-0f6c2a0d2a55",
        "6f1c2f5e-8f9b-4c62-8d0c-0f6c2a0d2a55",
    ),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_read_as_json_has_it_and_written_back_to_the_byte(name):
    kind, value, wanted = VALUES[name]
    schema = a_record(("v", kind))
    record = an_avro({"v": value}, schema)
    found = a_schema(schema).decode(record)
    assert found == {"v": wanted}
    assert type(found["v"]) is type(wanted)
    assert a_schema(schema).encode(found) == record


def test_a_missing_field_is_written_by_its_default():
    assert a_schema().encode({"n": 1}) == an_avro({"n": 1, "do": None})


def test_a_type_that_contains_itself_is_read_and_written():
    document = {"next": {"next": {"next": None}}}
    record = an_avro(document, NODE)
    assert a_schema(NODE).decode(record) == document
    assert a_schema(NODE).encode(document) == record


def test_a_schema_may_refer_to_another_one():
    order = a_record(("part", "A"))
    schema = a_schema(order, references=(("A", json.dumps(A)),))
    assert schema.decode(framed(7, b"\x0a")) == {"part": {"x": 5}}


MISFITS = {
    "a text for a number": ({"n": "1"}, "$.n"),
    "too large": ({"n": 2**31}, "$.n"),
    "a fraction": ({"n": Decimal("1.5")}, "$.n"),
    "true for a number": ({"n": True}, "$.n"),
    "a field too many": ({"n": 1, "x": 2}, "$"),
    "a field missing": ({}, "$.n"),
    "no object": ([], "$"),
    "none of the union": ({"n": 1, "do": 5}, "$.do"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_what_does_not_fit_is_refused_with_its_place(name):
    document, path = MISFITS[name]
    found = a_schema().encode(document)
    assert isinstance(found, Misfit)
    assert found.path == path


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (logical("bytes", "decimal", precision=4, scale=2), Decimal("1.234")),
        (logical("bytes", "decimal", precision=4, scale=2), Decimal("1234.5")),
        (logical("int", "date"), "26.11.2026"),
        (logical("long", "timestamp-millis"), "2026-11-26T03:04:05.000001+00:00"),
        ("bytes", "no Base64"),
        ({"type": "fixed", "name": "F", "size": 2}, "AA=="),
        ({"type": "enum", "name": "E", "symbols": ["ON"]}, "OFF"),
        ("float", Decimal("1e39")),
        ([A, B], {"x": 1}),
        ([A, B], {"C": {"x": 1}}),
        ({"type": "array", "items": "int"}, [1, "2"]),
        ({"type": "map", "values": "int"}, {"a": None}),
    ],
)
def test_nothing_is_rounded_or_guessed(kind, value):
    assert isinstance(a_schema(a_record(("v", kind))).encode({"v": value}), Misfit)


def code(schema: Any, body: bytes) -> str:
    found = a_schema(schema).decode(framed(7, body))
    assert isinstance(found, Flaw), found
    return found.code


def zigzag(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def test_every_beginning_of_a_record_is_truncated():
    schema = a_record(("s", "string"), ("d", "double"), ("a", {"type": "array", "items": "string"}))
    record = an_avro({"s": "text", "d": 1.5, "a": ["x", "y"]}, schema)
    codes = {a_schema(schema).decode(record[:end]).code for end in range(5, len(record))}
    assert codes == {"TRUNCATED_ENCODING"}


@pytest.mark.parametrize(
    ("kind", "body", "wanted"),
    [
        ("int", b"\x02\x02", "NOT_BY_SCHEMA"),
        ("int", zigzag(2**31), "NOT_BY_SCHEMA"),
        ("long", b"\xff" * 11, "NOT_BY_SCHEMA"),
        ("long", b"\xff" * 9 + b"\x7f", "NOT_BY_SCHEMA"),
        ("boolean", b"\x02", "NOT_BY_SCHEMA"),
        ("string", zigzag(-1), "NOT_BY_SCHEMA"),
        ("string", zigzag(2**40), "TRUNCATED_ENCODING"),
        ("string", zigzag(1) + b"\xff", "NOT_UTF8"),
        ("string", zigzag(1) + b"\0", "NUL_CHARACTER"),
        ("double", struct.pack("<d", float("nan")), "NOT_A_NUMBER"),
        ("float", struct.pack("<f", float("inf")), "NOT_A_NUMBER"),
        (["null", "int"], zigzag(2), "NOT_BY_SCHEMA"),
        (["null", "int"], zigzag(-1), "NOT_BY_SCHEMA"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, zigzag(1), "NOT_BY_SCHEMA"),
        ({"type": "fixed", "name": "F", "size": 2**30}, b"xx", "TRUNCATED_ENCODING"),
        (
            {"type": "map", "values": "int"},
            zigzag(2) + (zigzag(1) + b"a" + b"\2") * 2 + b"\0",
            "DUPLICATE_KEY",
        ),
    ],
)
def test_bytes_that_do_not_fit_have_a_code(kind, body, wanted):
    assert code(kind, body) == wanted


# Bombs: a few bytes that claim to be much.
def test_an_array_of_nothings_unfolds_to_no_more_than_is_allowed():
    nulls = {"type": "array", "items": "null"}
    empty = {"type": "array", "items": {"type": "record", "name": "Empty", "fields": []}}
    for schema in (nulls, empty):
        for count in (FREE_VALUES + 100, 2**62):
            assert code(schema, zigzag(count) + b"\0") == "TOO_MANY_VALUES"
            assert code(schema, zigzag(-count) + b"\0\0") == "TOO_MANY_VALUES"


def test_an_array_longer_than_its_record_is_refused_before_anything_is_made_of_it():
    tracemalloc.start()
    try:
        assert code({"type": "array", "items": "string"}, zigzag(2**40)) == "TRUNCATED_ENCODING"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_types_that_double_at_each_level_are_bounded():
    types: Any = {"type": "record", "name": "R0", "fields": []}
    for level in range(1, 40):
        fields = [{"name": "a", "type": types}, {"name": "b", "type": f"R{level - 1}"}]
        types = {"type": "record", "name": f"R{level}", "fields": fields}
    assert code(types, b"") == "TOO_MANY_VALUES"


@pytest.mark.parametrize("depth", [250, 100_000, 1_000_000])
def test_deep_nesting_is_told(depth):
    assert code(NODE, b"\x02" * depth + b"\0") == "TOO_DEEP"


def test_time_grows_with_the_record_and_not_faster():
    schema = a_record(("a", {"type": "array", "items": A}))
    decode = a_schema(schema).decode

    def decoded(items: int) -> None:
        record = framed(7, zigzag(items) + b"\x02" * items + b"\0")
        assert len(decode(record)["a"]) == items

    assert not grows(decoded, 10_000)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"type": "nothing"}', '{"type": "record"}', "[" * 5_000, '"Unknown"'],
)
def test_a_text_that_is_no_schema_is_said(text):
    if text == "[]":
        assert code([], b"\0") == "NOT_BY_SCHEMA"
        return
    with pytest.raises(UnusableSchemaError):
        a_schema(text=text)


@pytest.mark.parametrize("digits", [4_301, 1_500_000, 3 * 10**9])
@pytest.mark.parametrize("scale", [True, False])
def test_a_decimal_of_more_digits_than_a_number_may_have_is_said(digits, scale):
    """Without the limit its messages could be neither read, nor shown to people, nor corrected."""
    kind = logical("bytes", "decimal", precision=digits, scale=digits if scale else 2)
    with pytest.raises(UnusableSchemaError):
        a_schema(a_record(("x", kind)))
    longest = a_schema(a_record(("x", logical("bytes", "decimal", precision=4_300, scale=4_300))))
    document = {"x": Decimal("5E-4300")}
    assert longest.decode(longest.encode(document)) == document


DECIMAL = ', "logicalType": "decimal", "precision": 4'


@pytest.mark.parametrize("size", ["1e999", "1e999" + DECIMAL, f"1{'0' * 400}{DECIMAL}"])
def test_a_size_that_no_number_holds_is_said(size):
    with pytest.raises(UnusableSchemaError):
        a_schema(text=f'{{"type": "fixed", "name": "F", "size": {size}}}')


def test_no_digit_of_a_long_decimal_is_rounded_away():
    schema = a_schema(a_record(("x", logical("bytes", "decimal", precision=30, scale=0))))
    longest = {"x": Decimal("9" * 30)}
    assert schema.decode(schema.encode(longest)) == longest


@pytest.mark.parametrize("known", [5, {"Known": "int"}])
def test_the_marks_of_the_library_do_not_pass_a_schema(known):
    marks = {"__fastavro_parsed": True, "__named_schemas": known}
    schema = a_schema(a_record(("x", "int")) | marks)
    assert schema.decode(framed(7, b"\x02")) == {"x": 1}
    with pytest.raises(UnusableSchemaError):
        a_schema(a_record(("x", "Known")) | marks)


def test_a_schema_stays_as_usable_by_many():
    schema = a_schema()
    for n in range(3):
        assert schema.decode(an_avro({"n": n, "do": "x"}, ORDER)) == {"n": n, "do": "x"}
