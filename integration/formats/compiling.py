"""Compiling a registry's schema by its kind."""

from collections.abc import Callable, Mapping
from typing import Final

from integration.formats import avro, json_schema, protobuf
from integration.formats.schema import (
    LARGEST_TEXT,
    Registered,
    Schema,
    SchemaFacts,
    SchemaKind,
    UnusableSchemaError,
)

_CODERS: Final[Mapping[SchemaKind, Callable[[Registered], avro.Coders]]] = {
    SchemaKind.AVRO: avro.coders,
    SchemaKind.JSON: json_schema.coders,
    SchemaKind.PROTOBUF: protobuf.coders,
}


def compiled(registered: Registered) -> Schema:
    """Return the schema ready for use. Raises UnusableSchemaError."""
    size = len(registered.text) + sum(len(text) for _, text in registered.references)
    if size > LARGEST_TEXT:
        raise UnusableSchemaError(f"it has more than {LARGEST_TEXT:,} characters.")
    decode, write_body = _CODERS[registered.kind](registered)
    return Schema(
        facts=SchemaFacts(registered.id, registered.subject, registered.version),
        kind=registered.kind,
        decode=decode,
        write_body=write_body,
    )
