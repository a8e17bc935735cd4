"""The reading of a message by its structure: its key, its version, its verdict on the schema."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, Protocol, TypeGuard

from lxml import etree

from integration.documents.exact_json import encode
from integration.documents.numbers import MOST_DIGITS, is_too_long
from integration.documents.refusals import permanent, schema_refusal
from integration.documents.schemas import UNUSABLE, Judge, code_of, judge_of, why_unusable
from integration.envelope import Flaw, FlawCode, body_of
from integration.message import Message
from integration.paths import MAX_KEY_BYTES, Path, compile_path, key_of_values, object_key
from integration.policy.failure import Failure

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# The digits that the column holds before the decimal point.
_VERSION_DIGITS: Final = 30
_LARGEST_VERSION: Final = Decimal(10) ** _VERSION_DIGITS
_UTF8: Final = frozenset({"", "UTF-8", "ASCII", "US-ASCII"})
DELETES: Final = "delete"
NUMBER_TOO_LONG: Final = permanent(
    "A number of the document has an exponent for which more than "
    f"{MOST_DIGITS} zeros would be stored, or many have one that makes the document far longer.",
    "NUMBER_TOO_LONG",
)


class Structure(Protocol):
    """The columns of an ObjectStructure row that are needed here."""

    @property
    def name(self) -> str: ...
    @property
    def key_paths(self) -> Any: ...
    @property
    def version_path(self) -> str: ...
    @property
    def json_schema(self) -> Any: ...
    @property
    def tombstone(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One message as it would be stored. `document` is JSON text, None for XML and deletions."""

    key: str
    message: Message
    document: str | None = None
    xml: str = ""
    version: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A structure's configuration, compiled; shared by all its messages."""

    name: str
    paths: tuple[Path, ...]
    version_path: Path | None
    judge: Judge | None
    deletes: bool

    def entry(self, message: Message) -> Entry | Failure:
        """Return what to store for a message, or why it cannot be stored."""
        if message.body is None:
            return self._deletion(message)
        key_and_version = self.read(message.body)
        if isinstance(key_and_version, Failure):
            return key_and_version
        key, version = key_and_version
        if is_xml(message.body):
            xml = "" if deletes_its_object(message.body) else _xml_text(message)
            return Entry(key, message, None, xml, version)
        return Entry(key, message, _json_text(message), "", version)

    def objection(self, body: object) -> Failure | None:
        """Return why this document would not be stored, whatever message it came in; else None."""
        verdict = self.read(body)
        return verdict if isinstance(verdict, Failure) else None

    def read(self, body: object) -> tuple[str, Decimal | None] | Failure:
        key = object_key(self.paths, body)
        if isinstance(key, Flaw):
            return permanent(f"{key.message} {key.hint}", key.code)
        if is_too_long(body):
            return NUMBER_TOO_LONG
        if refused := self.refused(body):
            return refused
        if not self.deletes and deletes_its_object(body):
            return permanent(
                f'The message has action="Delete", and {self.name} does not say that this deletes. '
                "Set its tombstone to delete, or delete this failure.",
                "DELETE_ACTION",
            )
        value = None if self.version_path is None else self.version_path.first(body)
        version = version_of(value)
        return version if isinstance(version, Failure) else (key, version)

    def _deletion(self, message: Message) -> Entry | Failure:
        if not self.deletes:
            return permanent(
                f"The message has no value (a tombstone), and {self.name} does not say that this "
                "deletes. Set its tombstone to delete, or delete this failure.",
                "TOMBSTONE",
            )
        key = self._record_key(message.key)
        return key if isinstance(key, Failure) else Entry(key, message)

    def _record_key(self, key: bytes | None) -> str | Failure:
        """The object's key from the Kafka record's: the text itself, or a JSON array of parts."""
        try:
            text = (key or b"").decode()
        except UnicodeDecodeError:
            return permanent("The tombstone's key is not UTF-8 text.", "BAD_KEY")
        if not text.strip() or "\0" in text:
            return permanent("The tombstone has no key that could be deleted.", FlawCode.NO_KEY)
        found = self._key_in(text)
        if found is None:
            return permanent(
                f"The tombstone's key is not a JSON array of {len(self.paths)} texts or numbers.",
                "BAD_KEY",
            )
        if len(found.encode()) > MAX_KEY_BYTES:
            return permanent("The tombstone's key is too long.", FlawCode.KEY_TOO_LONG)
        return found

    def _key_in(self, text: str) -> str | None:
        if len(self.paths) == 1:
            return key_of_values(self.paths, [text])
        # By the documents' own reader: another one would make other texts of some numbers.
        values = body_of(text)
        if not isinstance(values, list) or len(values) != len(self.paths):
            return None
        return key_of_values(self.paths, values)

    def refused(self, body: object) -> Failure | None:
        """Return the JSON Schema's objection to a document; None without a schema."""
        if self.judge is None:
            return None
        if is_xml(body):
            text = f"{self.name} has a JSON Schema, but the document is XML."
            return permanent(text, "SCHEMA_VIOLATION")
        try:
            errors = self.judge.errors(body)
        except UNUSABLE as e:
            return permanent(why_unusable(self.name, e), code_of(e))
        return schema_refusal(errors[0]) if errors else None


def plan_for(structure: Structure) -> Plan:
    """The compiled plan of a structure as it is configured now; compiled once per configuration.

    Raises integration.paths.BadPath for a path that was saved past validation.
    """
    schema = None if structure.json_schema is None else json.dumps(structure.json_schema)
    paths = (*structure.key_paths, structure.version_path or "")
    return _compiled(structure.name, paths, schema, structure.tombstone == DELETES)


@lru_cache(maxsize=256)
def _compiled(name: str, paths: tuple[str, ...], schema: str | None, deletes: bool) -> Plan:
    *keys, version = paths
    return Plan(
        name,
        tuple(compile_path(key) for key in keys),
        compile_path(version) if version else None,
        None if schema is None else judge_of(schema),
        deletes,
    )


def schema_problems(schema: Any, body: object, limit: int = 20) -> list[str]:
    """List what the schema refuses of a document: where, and why; empty when nothing."""
    if is_xml(body):
        return ["A JSON Schema cannot judge an XML document: each of them would be held."]
    try:
        errors = judge_of(json.dumps(schema)).errors(body, limit)
    except UNUSABLE as e:
        return [why_unusable("the structure", e)]
    return [f"{problem.json_path}: {problem.message[:300]}" for problem in errors]


def version_of(value: object) -> Decimal | Failure | None:
    """A version as a number: integers as they are, timestamps as seconds since 1970.

    Timestamps without an offset are taken as UTC. None stays None.
    """
    if value is None:
        return None
    number: Decimal | None = None
    if isinstance(value, int | Decimal):
        number = Decimal(value)
    elif isinstance(value, datetime):
        number = _seconds(value)
    elif isinstance(value, str):
        number = _read_version(value.strip())
    if number is None:
        return permanent("The version is neither an integer nor an ISO timestamp.", "BAD_VERSION")
    if not -_LARGEST_VERSION < number < _LARGEST_VERSION:
        text = f"The version has more than {_VERSION_DIGITS} digits."
        return permanent(text, "BAD_VERSION")
    return number


def _read_version(text: str) -> Decimal | None:
    if text.removeprefix("-").isdecimal() and text.isascii():
        return Decimal(text)
    try:
        return _seconds(datetime.fromisoformat(text))
    except ValueError:
        return None


def _seconds(at: datetime) -> Decimal:
    passed = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    return passed.days * 86_400 + passed.seconds + Decimal(passed.microseconds) / 1_000_000


def is_xml(body: object) -> TypeGuard[etree._Element]:
    return isinstance(body, etree._Element)  # noqa: SLF001 - lxml's only name for it


def deletes_its_object(body: object) -> bool:
    """Return whether it is a message of Maximo that deletes: the object's `action` is Delete.

    Such a message is named as its set is (SyncMXPO, CreateMXPO, PublishMXPO: MXPOSet); the object
    is the first of the set.
    """
    if not is_xml(body):
        return False
    held_in = next(body.iterchildren(etree.Element), None)
    thing = None if held_in is None else next(held_in.iterchildren(etree.Element), None)
    if thing is None or thing.get("action", "").casefold() != "delete":
        return False
    name = etree.QName(held_in).localname
    return name.endswith("Set") and etree.QName(body).localname.endswith(name.removesuffix("Set"))


def _json_text(message: Message) -> str:
    """The payload's own text where there is one: no number is written anew."""
    text = message.text
    if not text:
        return encode(message.body)
    return (text if isinstance(text, str) else text.decode()).removeprefix("\ufeff")


def _xml_text(message: Message) -> str:
    text, root = message.text, message.body
    if isinstance(text, str) and text:
        return text
    declared = root.getroottree().docinfo.encoding or ""
    if text and declared.upper() in _UTF8:
        return text.decode().removeprefix("\ufeff")
    return etree.tostring(root, encoding="unicode")
