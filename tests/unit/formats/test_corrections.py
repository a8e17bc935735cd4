"""One change in messages of registries' formats: the bytes that editing each of them would make."""

import json
from decimal import Decimal
from typing import Any

import pytest

from integration.documents.exact_json import encode
from integration.envelope import body_of
from integration.formats import port
from integration.formats.compiling import compiled
from integration.formats.schema import Registered, Schema, SchemaKind
from integration.formats.wire import framed
from integration.recipe_use import Changed, Refused, Rules, Same, Subject, use
from integration.recipes import Misfit, compile_recipe

pytestmark = pytest.mark.fast

TEXTS = {
    SchemaKind.AVRO: {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "n", "type": "int"},
            {"name": "do", "type": ["null", "string"], "default": None},
            {"name": "price", "type": "double"},
        ],
    },
    SchemaKind.JSON: {
        "type": "object",
        "required": ["n"],
        "properties": {"n": {"type": "integer"}, "do": {"type": "string"}},
    },
    SchemaKind.PROTOBUF: 'syntax = "proto3"; message First { bool b = 1; } '
    "message Order { int32 n = 1; string do = 2; double price = 3; }",
}
# Of a Protobuf schema the bytes after the header say which message it is: the second.
SECOND = b"\x02\x02"
WRONG = {"n": 1, "do": "wrong", "price": Decimal("1.10")}


def a_schema(kind: SchemaKind) -> Schema:
    text = TEXTS[kind]
    said = text if isinstance(text, str) else json.dumps(text)
    return compiled(Registered(id=7, kind=kind, text=said))


def a_record(schema: Schema, document: Any = WRONG) -> bytes:
    like = framed(7, SECOND) if schema.kind is SchemaKind.PROTOBUF else b""
    record = schema.encode(document, like)
    assert isinstance(record, bytes)
    return record


def changed(record: bytes | None, schema: object, value: str = '"ok"', path: str = "/do") -> Any:
    recipe = compile_recipe(f'[{{"op":"replace","path":"{path}","value":{value}}}]')
    return use(recipe, Subject(1, "", record, [], schema), Rules())  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", SchemaKind)
def test_a_change_makes_what_editing_singly_makes(kind: SchemaKind) -> None:
    schema = a_schema(kind)
    record = a_record(schema)
    made = changed(record, schema)
    assert isinstance(made, Changed)
    singly = body_of(encode({**WRONG, "do": "ok"}))
    assert made.record == schema.encode(singly, record)
    assert '"do":"wrong"' in made.before
    assert schema.decode(made.record) == singly
    assert isinstance(changed(made.record, schema), Same)


@pytest.mark.parametrize("kind", SchemaKind)
def test_what_would_not_fit_its_schema_is_refused_without_its_values(kind: SchemaKind) -> None:
    schema = a_schema(kind)
    made = changed(a_record(schema), schema, '"hush-hush"', "/n")
    assert isinstance(made, Refused)
    assert made.why.startswith(port.MISFIT)
    assert "hush" not in made.why


def test_json_that_its_schema_refuses_is_corrected() -> None:
    schema = a_schema(SchemaKind.JSON)
    made = changed(framed(7, b'{"n":"one"}'), schema, "1", "/n")
    assert isinstance(made, Changed)
    assert made.record == framed(7, b'{"n":1}')


@pytest.mark.parametrize("kind", SchemaKind)
def test_bytes_that_do_not_fit_their_schema_are_left(kind: SchemaKind) -> None:
    schema = a_schema(kind)
    for record in (a_record(schema)[:-1], framed(7, b""), framed(7, b"\xff" * 20)):
        assert isinstance(changed(record, schema), Misfit)
    assert isinstance(changed(None, schema), Misfit)


def test_without_its_schema_a_message_is_left_and_told_why() -> None:
    made = changed(framed(8, b"x"), port.unknown("http://registry", 8))
    assert isinstance(made, Misfit)
    assert made.why.startswith("SCHEMA_UNKNOWN")
