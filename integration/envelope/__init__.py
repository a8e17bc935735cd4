"""The envelope: messages read from untrusted bytes, and written for any Kafka client."""

from integration.envelope.document import (
    DEFAULT,
    JSON,
    XML,
    Document,
    FoundingId,
    Limits,
    parse_founding_id,
)
from integration.envelope.flaw import Flaw, FlawCode
from integration.envelope.reading import read
from integration.envelope.writing import Outgoing, UnwritableMessage, write

__all__ = [
    "DEFAULT",
    "JSON",
    "XML",
    "Document",
    "Flaw",
    "FlawCode",
    "FoundingId",
    "Limits",
    "Outgoing",
    "UnwritableMessage",
    "parse_founding_id",
    "read",
    "write",
]
