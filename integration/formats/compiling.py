"""Compiling a registry's schema by its kind."""

from collections.abc import Mapping
from importlib import import_module
from typing import Final

from integration.formats.schema import (
    LARGEST_TEXT,
    Registered,
    Schema,
    SchemaFacts,
    SchemaKind,
    UnusableSchemaError,
)

# Loaded with the first schema of its kind: their libraries would cost every process its start and
# its memory, and most installations have no registry.
_ROOMS: Final[Mapping[SchemaKind, str]] = {
    SchemaKind.AVRO: "integration.formats.avro",
    SchemaKind.JSON: "integration.formats.json_schema",
    SchemaKind.PROTOBUF: "integration.formats.protobuf",
}
LIBRARY_MISSING: Final = (
    "the library {} is not installed on this worker; install sluice[registry] there."
)


def compiled(registered: Registered) -> Schema:
    """Return the schema ready for use. Raises UnusableSchemaError."""
    if registered.characters > LARGEST_TEXT:
        raise UnusableSchemaError(f"it has more than {LARGEST_TEXT:,} characters.")
    try:
        room = import_module(_ROOMS[registered.kind])
    except ModuleNotFoundError as missing:
        raise UnusableSchemaError(LIBRARY_MISSING.format(missing.name)) from missing
    decode, write_body = room.coders(registered)
    return Schema(
        facts=SchemaFacts(registered.id, registered.subject, registered.version),
        kind=registered.kind,
        decode=decode,
        write_body=write_body,
    )
