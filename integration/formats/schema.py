"""Schemas as values: as a registry tells of them, and compiled to read and write messages."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple

from integration.envelope import Flaw
from integration.errors import IntegrationError
from integration.formats.wire import framed

# More is no schema that people wrote; it is parsed whole.
LARGEST_TEXT: Final = 2**20


class SchemaKind(StrEnum):
    """The registry's own names of the formats."""

    AVRO = "AVRO"
    JSON = "JSON"
    PROTOBUF = "PROTOBUF"


TITLES: Final = {
    SchemaKind.AVRO: "Avro",
    SchemaKind.JSON: "JSON Schema",
    SchemaKind.PROTOBUF: "Protobuf",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A schema as it stands in a registry.

    `references` are the schemas it refers to, as (name, text), each after those it refers to
    itself. `subject` and `version` are where it was found.
    """

    id: int
    kind: SchemaKind
    text: str = field(repr=False)
    references: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    subject: str = ""
    version: int | None = None

    @property
    def digest(self) -> str:
        """Equal for the same schema; another one under the same id has another digest."""
        parts = [self.kind, self.text, *(part for pair in self.references for part in pair)]
        return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

    @property
    def characters(self) -> int:
        """The length of its text and of those that it refers to."""
        return len(self.text) + sum(len(text) for _, text in self.references)


class SchemaFacts(NamedTuple):
    """What is kept of the schema that a message was written by."""

    id: int
    subject: str = ""
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a document cannot be written by a schema: where, and what is wrong there.

    It names places, never values.
    """

    path: str
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


Coders = tuple[Callable[[bytes], object], Callable[[object, bytes], bytes | Misfit]]
"""What decodes records of a schema, and what writes the bodies of documents; see Schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """A schema ready for use; shared by all messages.

    `decode` takes a whole record and returns its document, a Flaw for bytes that do not fit;
    `encode` returns a whole record of this schema, or what does not fit: `like` is the record that
    was there before, or nothing (a Protobuf schema has several messages, and it says which).
    Neither raises.
    """

    facts: SchemaFacts
    kind: SchemaKind
    decode: Callable[[bytes], object] = field(repr=False)
    write_body: Callable[[object, bytes], bytes | Misfit] = field(repr=False)

    @property
    def id(self) -> int:
        return self.facts.id

    def encode(self, document: object, like: bytes = b"") -> bytes | Misfit:
        body = self.write_body(document, like)
        return body if isinstance(body, Misfit) else framed(self.id, body)

    def __str__(self) -> str:
        number, subject, version = self.facts
        which = "" if version is None else f" version {version}"
        return f"{subject}{which} (id {number})" if subject else f"id {number}"


class UnusableSchemaError(IntegrationError):
    """A schema of a registry cannot be used; `reason` says why."""

    code: ClassVar[str] = "SCHEMA_NOT_READ"

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The schema cannot be used: {reason}",
            next_step="Correct it in the registry, under a new version, and ask for the message "
            "to be sent again by that one.",
        )
        self.reason = reason


class UnreadableError(Exception):
    """Bytes that do not fit their schema; caught where a record is decoded."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.code)
        self.flaw = flaw


class MisfitError(Exception):
    """A value that does not fit its schema; caught where a document is encoded."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.path = path

    def below(self, step: str) -> "MisfitError":
        """Return the same, seen from one level above."""
        return MisfitError(self.text, f"{step}{self.path}")
