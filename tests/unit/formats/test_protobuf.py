"""Protobuf messages: by a source text or a serialized file, read as JSON and written back."""

import base64
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from integration.envelope import Flaw
from integration.formats.compiling import compiled
from integration.formats.protobuf_files import pool_of
from integration.formats.schema import Misfit, Registered, Schema, SchemaKind, UnusableSchemaError
from integration.formats.wire import framed

pytestmark = pytest.mark.fast

SOURCE = """
// An order.
syntax = "proto3";
package com.example;
import "google/protobuf/timestamp.proto";
import "part.proto";
option java_package = "com.example; }";

message Order {
  /* What it is
     about: message Not { } */
  int64 id = 1;
  string name = 2 [deprecated = true, json_name = "title"];
  optional double price = 3;
  repeated Line lines = 4;
  map<string, int32> counts = 5;
  oneof paid { string card = 6; bool cash = 7; }
  State state = 8;
  google.protobuf.Timestamp at = 9;
  bytes raw = 10;
  com.example.parts.Part part = 11;
  float share = 12;
  Order next = 13;
  reserved 20 to 30, 40;
  reserved "old";
  message Line { uint32 n = 1; repeated int32 sizes = 2; message Deep { bool b = 1; } }
  enum State { UNKNOWN = 0; OPEN = 1; option allow_alias = false; CLOSED = -2; }
}
message Other { string x = 1; }
service Orders { rpc Get (Order) returns (Other) { option idempotent = true; } }
"""
PART = 'syntax = "proto3"; package com.example.parts; message Part { sint32 n = 1; }'
REFERENCES = (("part.proto", PART),)


def registered(text: str = SOURCE, references: Any = REFERENCES) -> Registered:
    return Registered(id=7, kind=SchemaKind.PROTOBUF, text=text, references=references)


def a_schema(text: str = SOURCE, references: Any = REFERENCES) -> Schema:
    return compiled(registered(text, references))


def a_message(kind: str = "Order", /, **fields: Any) -> Message:
    pool = pool_of(registered())
    descriptor = pool.pool.FindMessageTypeByName(f"com.example.{kind}")
    return GetMessageClass(descriptor)(**fields)


def a_record(message: Message, indexes: bytes = b"\0") -> bytes:
    return framed(7, indexes + message.SerializeToString(deterministic=True))


FULL = {
    "id": 2**62,
    "name": "Zürich",
    "price": Decimal("0.1"),
    "lines": [{"n": 1, "sizes": [1, 2]}, {"n": 2, "sizes": []}],
    "counts": {"a": 1, "b": 2},
    "cash": True,
    "state": "OPEN",
    "at": "2026-11-26T03:04:05Z",
    "raw": "AP8=",
    "part": {"n": -5},
    "share": Decimal("0.1"),
}


def full() -> Message:
    return a_message(
        id=2**62,
        name="Zürich",
        price=0.1,
        lines=[{"n": 1, "sizes": [1, 2]}, {"n": 2}],
        counts={"a": 1, "b": 2},
        cash=True,
        state=1,
        at=datetime(2026, 11, 26, 3, 4, 5, tzinfo=UTC),
        raw=b"\0\xff",
        part={"n": -5},
        share=0.1,
    )


def test_every_kind_of_field_is_read_as_json_has_it_and_written_back():
    record = a_record(full())
    found = a_schema().decode(record)
    assert found == FULL
    assert a_schema().encode(found, record) == record


def test_what_is_not_set_is_left_out_where_that_is_known():
    found = a_schema().decode(a_record(a_message()))
    assert found == {
        "id": 0,
        "name": "",
        "lines": [],
        "counts": {},
        "state": "UNKNOWN",
        "raw": "",
        "share": Decimal(0),
    }


def test_the_indexes_name_the_message():
    other = a_record(a_message("Other", x="y"), b"\x02\x02")
    assert a_schema().decode(other) == {"x": "y"}
    assert a_schema().encode({"x": "z"}, other) == a_record(a_message("Other", x="z"), b"\x02\x02")
    line = a_record(a_message("Order.Line", n=3), b"\x04\x00\x00")
    assert a_schema().decode(line) == {"n": 3, "sizes": []}


def test_a_serialized_file_is_a_schema_as_well():
    file = FileDescriptorProto(name="x.proto", syntax="proto3")
    file.message_type.add(name="X").field.add(name="n", number=1, type=5, label=1)
    text = base64.b64encode(file.SerializeToString()).decode()
    assert a_schema(text, ()).decode(framed(7, b"\0\x08\x05")) == {"n": 5}


def test_syntax_2_is_read():
    text = "message X { required int32 n = 1; optional string s = 2 [default = 'a;b']; }"
    assert a_schema(text, ()).decode(framed(7, b"\0\x08\x05")) == {"n": 5}


@pytest.mark.parametrize("document", [{"a": {"n": 1}}, {"m": 1, "a": {}}, {"m": 1, "a": None}])
def test_a_missing_required_field_does_not_fit(document: dict[str, Any]):
    part = "message A { required int32 n = 1; }"
    schema = a_schema("message X { required int32 m = 1; required A a = 2; }" + part, ())
    assert isinstance(schema.encode({"m": 1, "a": {"n": 2}}), bytes)
    assert schema.encode(document) == Misfit("$", "a required field is missing.")


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("optional string s = 1;", b"\x0a\x01\xff"),
        ("repeated string s = 1;", b"\x0a\x01\xff"),
        ("map<string, int32> s = 1;", b"\x0a\x05\x0a\x01\xff\x10\x01"),
        ("map<int32, string> s = 1;", b"\x0a\x05\x08\x01\x12\x01\xff"),
    ],
)
def test_a_text_of_syntax_2_may_be_no_utf_8(field, body):
    found = a_schema(f"message X {{ {field} }}", ()).decode(framed(7, b"\0" + body))
    assert isinstance(found, Flaw)
    assert found.code == "NOT_UTF8"


KNOWN = """
syntax = "proto3";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
message X {
  string text = 1;
  google.protobuf.StringValue wrapped = 2;
  google.protobuf.Struct any = 3;
  google.protobuf.FieldMask mask = 4;
  double double = 5;
  float float = 6;
  google.protobuf.DoubleValue maybe = 7;
}
"""


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x01\0",
        b"\x12\x03\x0a\x01\0",
        b"\x1a\x09\x0a\x07\x0a\x01\0\x12\x02\x08\0",
        b"\x1a\x0a\x0a\x08\x0a\x01a\x12\x03\x1a\x01\0",
        b"\x22\x03\x0a\x01\0",
    ],
)
def test_a_nul_character_is_found_wherever_it_stands(body):
    found = a_schema(KNOWN, ()).decode(framed(7, b"\0" + body))
    assert isinstance(found, Flaw)
    assert found.code == "NUL_CHARACTER"


TOO_LARGE = [Decimal("1e400"), Decimal("-1e400"), pytest.param(10**400, id="whole")]


@pytest.mark.parametrize("field", ["double", "float", "maybe", "any"])
@pytest.mark.parametrize("number", TOO_LARGE)
def test_a_number_that_is_too_large_does_not_fit(field, number):
    value = {"n": number} if field == "any" else number
    assert isinstance(a_schema(KNOWN, ()).encode({field: value}), Misfit)


@pytest.mark.parametrize("number", [Decimal("1e39"), 10**39])
def test_a_number_that_four_bytes_cannot_hold_is_not_written_as_infinite(number):
    assert isinstance(a_schema(KNOWN, ()).encode({"float": number}), Misfit)
    assert a_schema(KNOWN, ()).encode({"double": number}) == framed(
        7, b"\0\x29" + struct.pack("<d", 1e39)
    )


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ({"id": "x"}, "$.id"),
        ({"strange": 1}, "$.strange"),
        ({"state": "NOWHERE"}, "$.state"),
        ({"lines": [{"n": -1}]}, "$"),
        ([], "$"),
    ],
)
def test_what_does_not_fit_is_refused_without_its_value(document, path):
    found = a_schema().encode(document)
    assert isinstance(found, Misfit)
    assert found.path.startswith(path)
    assert "NOWHERE" not in found.text


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\x0a",
        b"\0\xff\xff\xff",
        b"\x02\x7e",
        b"\x02\x01",
        b"\xff" * 9,
        b"\0\x12\x02\xff\xff",
        b"\x10" + b"\0" * 3,
    ],
)
def test_bytes_that_are_no_message_have_a_code(body):
    found = a_schema().decode(framed(7, body))
    assert isinstance(found, Flaw)
    assert found.code == "NOT_BY_SCHEMA"


def test_deep_nesting_ends_in_a_flaw():
    body = b""
    for _ in range(5_000):
        length = len(body)
        size = bytearray()
        while length > 127:
            size.append(length & 127 | 128)
            length >>= 7
        size.append(length)
        body = b"\x6a" + bytes(size) + body
    found = a_schema().decode(framed(7, b"\0" + body))
    assert isinstance(found, Flaw)


def test_more_values_than_are_allowed_are_a_flaw():
    count = 1_100_000
    found = a_schema().decode(framed(7, b"\0" + b"\x22\0" * count))
    assert isinstance(found, Flaw)
    assert found.code == "TOO_MANY_VALUES"


def of_lines(fields: str, count: int) -> object:
    """What a record of so many empty lines comes to, a line having these fields."""
    text = f'syntax = "proto3"; message X {{ repeated Line l = 1; }} message Line {{ {fields} }}'
    return a_schema(text, ()).decode(framed(7, b"\0" + b"\x0a\0" * count))


def test_values_that_a_message_has_without_being_given_them_count_as_well():
    found = of_lines("int32 a = 1; int32 b = 2; int32 c = 3; int32 d = 4;", 900_000)
    assert isinstance(found, Flaw)
    assert found.code == "TOO_MANY_VALUES"


def test_what_is_not_set_counts_as_little_as_it_takes_to_see_that():
    optional = " ".join(f"optional int32 f{number} = {number};" for number in range(1, 101))
    assert of_lines(optional, 11_000) == {"l": [{}] * 11_000}
    found = of_lines(optional, 900_000)
    assert isinstance(found, Flaw)
    assert found.code == "TOO_MANY_VALUES"


def test_values_of_the_librarys_own_lists_count_as_well():
    text = (
        'syntax = "proto3"; import "google/protobuf/struct.proto"; '
        "message X { google.protobuf.ListValue l = 1; }"
    )
    body = b"\x0a\0" * 1_048_576
    found = a_schema(text, ()).decode(framed(7, b"\0\x0a\x80\x80\x80\x01" + body))
    assert isinstance(found, Flaw)
    assert found.code == "TOO_MANY_VALUES"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "message",
        "message X {",
        "message X { int32 n }",
        "message X { int32 n = a; }",
        "message X { Nothing n = 1; }",
        "message X { int32 n = 1; int32 m = 1; }",
        'syntax = "proto4"; message X { }',
        'edition = "2023"; message X { }',
        "message X { optional group G = 1 { } }",
        'import "missing.proto"; message X { }',
        'import "google/protobuf/../../os.proto"; message X { }',
        "enum E { A = 0; }",
        "\0\0",
        "message X {" * 100,
        "/*" * 50_000,
        "}",
    ],
)
def test_a_text_that_is_no_schema_is_said(text):
    with pytest.raises(UnusableSchemaError):
        a_schema(text, ())
