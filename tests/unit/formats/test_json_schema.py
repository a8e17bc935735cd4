"""JSON Schema out of a registry: what is none is said to be none, before any message meets it."""

import json
from typing import Any

import pytest

from integration.formats.compiling import compiled
from integration.formats.schema import Registered, SchemaKind, UnusableSchemaError

pytestmark = pytest.mark.fast


def registered(schema: Any, **references: Any) -> Registered:
    told = tuple((name, json.dumps(text)) for name, text in references.items())
    text = json.dumps(schema)
    return Registered(id=7, kind=SchemaKind.JSON, text=text, references=told)


@pytest.mark.parametrize(
    "schema",
    [
        1,
        [],
        "x",
        None,
        {"$id": 1},
        {"properties": []},
        {"patternProperties": 5},
        {"items": [{"type": "string"}]},
        {"exclusiveMinimum": True, "minimum": 1},
        {"$defs": 1},
    ],
)
def test_what_is_no_schema_of_this_draft_is_unusable(schema: Any) -> None:
    with pytest.raises(UnusableSchemaError):
        compiled(registered(schema))


@pytest.mark.parametrize(("schema", "other"), [({}, 1), ({}, []), ({"$defs": 1}, {})])
def test_what_is_referred_to_has_to_be_an_object(schema: Any, other: Any) -> None:
    with pytest.raises(UnusableSchemaError):
        compiled(registered(schema, other=other))
