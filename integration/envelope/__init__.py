"""The envelope: messages read from untrusted bytes, and written for any Kafka client."""

from integration.envelope.document import (
    DEFAULT,
    JSON,
    XML,
    Bare,
    Document,
    FoundingId,
    Limits,
    parse_founding_id,
    topic_in_id,
)
from integration.envelope.flaw import Flaw, FlawCode
from integration.envelope.reading import body_of, parse, read
from integration.envelope.unwrapping import Unwrapped, layers_of, read_unwrapped
from integration.envelope.writing import Alike, Outgoing, UnwritableMessage, write

__all__ = [
    "DEFAULT",
    "JSON",
    "XML",
    "Alike",
    "Bare",
    "Document",
    "Flaw",
    "FlawCode",
    "FoundingId",
    "Limits",
    "Outgoing",
    "Unwrapped",
    "UnwritableMessage",
    "body_of",
    "layers_of",
    "parse",
    "parse_founding_id",
    "read",
    "read_unwrapped",
    "topic_in_id",
    "write",
]
