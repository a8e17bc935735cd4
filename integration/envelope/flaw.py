"""Flaws of a message's bytes: one code per flaw, a sentence, and what to do now.

A flaw is a value: reading never raises for what a partner sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final


class FlawCode(StrEnum):
    """Stable names, stored with the failure and filtered on; docs/envelope.md explains each."""

    EMPTY_BODY = "EMPTY_BODY"  # no bytes, only blanks, or a JSON null
    TOO_LARGE = "TOO_LARGE"  # the record, or its payload once decompressed, exceeds the limit
    NOT_UTF8 = "NOT_UTF8"
    UTF16 = "UTF16"  # or UTF-32
    BAD_JSON = "BAD_JSON"  # breaks the grammar at a known line and column
    TRUNCATED_JSON = "TRUNCATED_JSON"  # stops before its last bracket
    CURLY_QUOTES = "CURLY_QUOTES"  # typographic quotation marks where JSON needs straight ones
    UNESCAPED_QUOTES = "UNESCAPED_QUOTES"  # a JSON text in a JSON string, its quotes as they were
    DUPLICATE_KEY = "DUPLICATE_KEY"  # one object names the same key twice
    NOT_A_NUMBER = "NOT_A_NUMBER"  # NaN or Infinity, which JSON does not have
    NUMBER_TOO_LONG = "NUMBER_TOO_LONG"  # too many digits, or too large an exponent
    LONE_SURROGATE = "LONE_SURROGATE"  # an escape that is half of a character; no text can hold it
    NUL_CHARACTER = "NUL_CHARACTER"  # its escape, which no column can hold, or nothing but NULs
    TOO_DEEP = "TOO_DEEP"  # objects, arrays or elements are nested beyond the limit
    BAD_FIELD = "BAD_FIELD"  # a field of the envelope, or a header in its place, is no usable text
    BAD_BASE64 = "BAD_BASE64"  # marked as compressed, and not Base64
    UNMARKED_BASE64 = "UNMARKED_BASE64"  # Base64, and the envelope does not say so
    BAD_COMPRESSION = "BAD_COMPRESSION"  # no zlib, gzip or raw deflate, or its check sum fails
    TRUNCATED_COMPRESSION = "TRUNCATED_COMPRESSION"
    ZIP_BOMB = "ZIP_BOMB"  # grows beyond the permitted ratio while it is decompressed
    BAD_XML = "BAD_XML"  # breaks the grammar at a known line and column
    TRUNCATED_XML = "TRUNCATED_XML"  # stops before its last end tag
    XML_DOCTYPE = "XML_DOCTYPE"  # declares a document type, which is not accepted
    XML_ENTITIES = "XML_ENTITIES"  # declares or uses entities, which are not accepted
    TRUNCATED_ENCODING = "TRUNCATED_ENCODING"  # ends before its schema says it is complete
    NOT_BY_SCHEMA = "NOT_BY_SCHEMA"  # the bytes do not fit the schema that they name
    SCHEMA_VIOLATION = "SCHEMA_VIOLATION"  # JSON that its own schema in the registry refuses
    TOO_MANY_VALUES = "TOO_MANY_VALUES"  # a few bytes that unfold to more than is ever read
    NO_KEY = "NO_KEY"  # a key path of the object structure finds no value
    KEY_AMBIGUOUS = "KEY_AMBIGUOUS"  # a key path of it finds values that differ
    KEY_TOO_LONG = "KEY_TOO_LONG"  # the key that is made of the values


_HOLD: Final = "Correct the payload here and release it, or ask the sender to"
HINTS: Final[Mapping[FlawCode, str]] = {
    FlawCode.EMPTY_BODY: "Ask the sender what was meant; delete it if nothing was.",
    FlawCode.TOO_LARGE: "Ask the sender to split the message, or raise the size limit.",
    FlawCode.NOT_UTF8: "Ask the sender to write UTF-8.",
    FlawCode.UTF16: "Ask the sender to write UTF-8 instead of UTF-16.",
    FlawCode.BAD_JSON: f"{_HOLD} send valid JSON.",
    FlawCode.TRUNCATED_JSON: "Ask the sender to send the whole message again; its end is lost.",
    FlawCode.CURLY_QUOTES: f"{_HOLD} write straight quotation marks.",
    FlawCode.UNESCAPED_QUOTES: f"{_HOLD} escape the inner quotes, or send payload as an object.",
    FlawCode.DUPLICATE_KEY: f"{_HOLD} send each key once; which value counts is not guessed.",
    FlawCode.NOT_A_NUMBER: f"{_HOLD} send null or leave the value out.",
    FlawCode.NUMBER_TOO_LONG: f"{_HOLD} send the value as a text.",
    FlawCode.LONE_SURROGATE: f"{_HOLD} send whole characters.",
    FlawCode.NUL_CHARACTER: f"{_HOLD} leave the NUL character out.",
    FlawCode.TOO_DEEP: "Ask the sender for a flatter document.",
    FlawCode.BAD_FIELD: f"{_HOLD} send this field as a short text.",
    FlawCode.BAD_BASE64: f'{_HOLD} send Base64, or leave out "compressed" for plain text.',
    FlawCode.UNMARKED_BASE64: f'{_HOLD} compress it and set "compressed" to "1".',
    FlawCode.BAD_COMPRESSION: f'{_HOLD} compress with zlib or gzip, or leave out "compressed".',
    FlawCode.TRUNCATED_COMPRESSION: "Ask the sender to send the whole message again.",
    FlawCode.ZIP_BOMB: "Delete it unless you know the sender; a genuine one goes uncompressed.",
    FlawCode.BAD_XML: f"{_HOLD} send well-formed XML.",
    FlawCode.TRUNCATED_XML: "Ask the sender to send the whole message again; its end is lost.",
    FlawCode.XML_DOCTYPE: f"{_HOLD} leave out the DOCTYPE.",
    FlawCode.XML_ENTITIES: f"{_HOLD} write the characters instead of entities.",
    FlawCode.TRUNCATED_ENCODING: "Ask the sender to send the whole message again; its end is lost.",
    FlawCode.NOT_BY_SCHEMA: "Ask the sender which schema it was written by, and to send it again.",
    FlawCode.SCHEMA_VIOLATION: f"{_HOLD} send what the schema allows.",
    FlawCode.TOO_MANY_VALUES: "Delete it unless you know the sender; a genuine one goes in parts.",
    FlawCode.NO_KEY: "Add the missing value and release it, or correct the structure's key path.",
    FlawCode.KEY_AMBIGUOUS: "Have the sender send one object in each message; or correct the path.",
    FlawCode.KEY_TOO_LONG: "Check that the structure's key path points at an identifier.",
}


@dataclass(frozen=True, slots=True)
class Flaw:
    """The reason why a message cannot be read: stable code, sentence for people, what to do now.

    The sentence names places and keys, never values: it is shown to people who may not see
    payloads. `interface` and `message_id` are what the envelope around a bad payload says; a
    message keeps them, readable or not.
    """

    code: FlawCode
    message: str
    interface: str | None = None
    message_id: str | None = None

    @property
    def hint(self) -> str:
        return HINTS[self.code]

    def in_payload(self) -> "Flaw":
        """Return the same flaw, saying that it lies in the payload inside the envelope."""
        return replace(self, message=f"In the payload: {self.message}")

    def of(self, interface: str | None, message_id: str | None) -> "Flaw":
        """Return the same flaw of a message that says who it is."""
        return replace(self, interface=interface, message_id=message_id)


def too_large(what: str, max_bytes: int) -> Flaw:
    return Flaw(FlawCode.TOO_LARGE, f"{what} is larger than {max_bytes:,} bytes.")


def too_deep(max_depth: int) -> Flaw:
    return Flaw(FlawCode.TOO_DEEP, f"The document is nested more than {max_depth} levels deep.")


EMPTY_BODY: Final = Flaw(FlawCode.EMPTY_BODY, "The message has no content.")
UTF16: Final = Flaw(FlawCode.UTF16, "The text is written in UTF-16 or UTF-32.")
ONLY_NUL: Final = Flaw(FlawCode.NUL_CHARACTER, "The text is nothing but NUL characters.")
