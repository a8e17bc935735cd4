"""Messages in a registry's format: decoded by the schema they name, or the reason why not."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from integration.envelope import DEFAULT, Flaw
from integration.formats import port
from integration.formats.documents import Decoded, DecodedBare, decoded
from integration.formats.port import Schemas
from integration.formats.schema import TITLES, Schema, SchemaFacts, SchemaKind
from integration.formats.wire import schema_id_of
from integration.policy.failure import Failure
from integration.values import Headers, Record

# What a service's format is called in a registry; the others accept no registry's message, or any.
KINDS: Final[Mapping[str, SchemaKind]] = {
    "avro": SchemaKind.AVRO,
    "json_schema": SchemaKind.JSON,
    "protobuf": SchemaKind.PROTOBUF,
}
TEXT: Final = "text"
_TEXT_TITLE: Final = "JSON or XML text"


class MustAskError(Exception):
    """The registry would have to be asked, and this is no time for that."""


class AtHand:
    """The schemas' port while a statement is under way: neither network nor session may be used.

    What the registry says is compared in the database, and that would wait for a lock that its
    own thread holds, for ever. To look beforehand is not enough: a schema may grow old meanwhile,
    and a message that does not fit has the registry asked in any case.
    """

    def __init__(self, schemas: Schemas) -> None:
        self.at_hand = schemas.at_hand

    def find(self, schema_id: int, *, anew: bool = False) -> Schema | Failure:
        """Raises MustAskError where the registry would be asked."""
        schema = None if anew else self.at_hand(schema_id)
        if schema is None:
            raise MustAskError
        return schema


class Encoded(NamedTuple):
    """What a record in the wire format comes to, and what it was written by."""

    content: Decoded | Flaw | Failure
    facts: SchemaFacts
    kind: SchemaKind | None = None


def bare_encoded(schemas: Schemas, record: Record) -> tuple[DecodedBare, SchemaFacts] | None:
    """Decode an object without headers by a schema that is at hand: what most records are.

    None for all others, which take the longer way.
    """
    schema_id = None if record.headers else schema_id_of(record.value)
    schema = None if schema_id is None else schemas.at_hand(schema_id)
    if schema is None or record.value is None or len(record.value) > DEFAULT.max_bytes:
        return None
    body = schema.decode(record.value)
    return (DecodedBare(body, record.value), schema.facts) if type(body) is dict else None


def read_encoded(
    schemas: Schemas, schema_id: int, value: bytes, headers: Headers | None
) -> Encoded:
    """Decode a record by its schema. Raises nothing but what `schemas` does.

    Where it does not fit, the registry is asked whether it still has the same schema under the id.
    """
    schema = schemas.find(schema_id)
    if isinstance(schema, Failure):
        return Encoded(schema, SchemaFacts(schema_id))
    content = decoded(schema, value, headers)
    if isinstance(content, Flaw):
        now = schemas.find(schema_id, anew=True)
        if isinstance(now, Failure) and now.code == port.CHANGED:
            return Encoded(now, schema.facts, schema.kind)
    return Encoded(content, schema.facts, schema.kind)


def objection(interface: str, expected: str, kind: SchemaKind | None) -> Failure | None:
    """Return why a service that expects this format does not take a message of that kind."""
    if not expected:
        return None
    wanted = KINDS.get(expected)
    if wanted is kind:
        return None
    found = _TEXT_TITLE if kind is None else TITLES[kind]
    return port.mismatch(interface, _TEXT_TITLE if wanted is None else TITLES[wanted], found)
