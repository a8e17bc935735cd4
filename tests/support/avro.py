"""Avro records for tests, written by the library that the product does not read them with."""

import io
import json
from typing import Any

import fastavro

from integration.formats.compiling import compiled
from integration.formats.schema import Registered, Schema, SchemaKind
from integration.formats.wire import framed

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "com.example",
    "fields": [
        {"name": "n", "type": "int"},
        {"name": "do", "type": ["null", "string"], "default": None},
    ],
}


def a_schema(
    schema: Any = ORDER, schema_id: int = 7, *, text: str | None = None, **more: Any
) -> Schema:
    """Compile a schema, or whatever stands in a text."""
    text = json.dumps(schema) if text is None else text
    return compiled(Registered(id=schema_id, kind=SchemaKind.AVRO, text=text, **more))


def an_avro(document: Any, schema: Any = ORDER, schema_id: int = 7) -> bytes:
    """The record of a document, in the wire format."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), document)
    return framed(schema_id, body.getvalue())
