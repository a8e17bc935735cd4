"""The part of a held message that a person edits: the document, or the whole record."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from integration.codec import decode_headers
from integration.documents.layout import laid_out
from integration.envelope import Document, Flaw, body_of, read
from integration.errors import IntegrationError
from integration.formats.documents import Decoded
from integration.formats.schema import Misfit, Schema, SchemaKind
from integration.formats.wire import HEADER_BYTES
from integration.models import MessageError
from integration.policy.failure import Failure
from integration.registries.reading import Reading, Written, reading_of, written_by_schema
from integration.selectors.failures import xml_layout
from integration.selectors.failures.payloads import Headers, is_json
from integration.selectors.scope import Scope
from integration.wrapping import document_text, rewrap

# A browser stands still over longer text fields: 11 MB took one 10 to 15 seconds.
FIELD_CHARACTERS: Final = 2**20


class Part(StrEnum):
    """The part of the message that the text on the page stands for."""

    DOCUMENT = "document"
    RECORD = "record"


class MisfitTextError(IntegrationError):
    """A text that cannot be written by the schema of its message."""

    code = "SCHEMA_MISFIT"

    def __init__(self, schema: Schema, why: str) -> None:
        super().__init__(
            f"SCHEMA_MISFIT: nothing was saved, because the text does not fit the schema {schema}. "
            f"{why}",
            next_step="Correct the text; the message is written by that schema again.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """`content` is the part as it is written, None when its bytes are not text.

    `text` is what an editor shows of it: None for what is not text or too long for a text field,
    which can only be replaced by a file. `written` is a message of a schema registry's: what is
    edited of it is its document, as JSON.
    """

    error: MessageError
    part: Part
    has_envelope: bool
    content: str | None
    text: str | None
    headers: Headers
    written: Written | None = None

    @property
    def reading(self) -> Reading:
        return reading_of(self.error.queue)

    @property
    def schema(self) -> Schema | None:
        """The schema that an edited text is written by."""
        found = None if self.written is None else self.written.schema
        return found if isinstance(found, Schema) else None

    @property
    def lacks(self) -> str:
        """Why a message of a registry's cannot be shown as a text; empty for others."""
        if self.written is None or self.content is not None:
            return ""
        content = self.written.content
        if isinstance(content, Flaw):
            return f"{content.code}: {content.message} {content.hint}"
        return f"{content.code}: {content.text}" if isinstance(content, Failure) else ""

    @property
    def record(self) -> bytes:
        """The record that the next attempt would read."""
        return self.error.current_payload or b""

    @property
    def original(self) -> bytes | None:
        return None if self.error.payload is None else bytes(self.error.payload)

    @property
    def is_tombstone(self) -> bool:
        return self.error.current_payload is None

    @property
    def is_long(self) -> bool:
        return self.text is None and self.content is not None

    def composed(self, text: str) -> bytes:
        """The record with the edited text in it; untouched, it stays as it is to the byte.

        Raises MisfitTextError.
        """
        # A browser sends every line end as CR LF, whatever the text had.
        if self.text is not None and _lines(text) == _lines(self.text):
            return self.record
        if self.text is not None and "\r\n" not in self.text:
            text = text.replace("\r\n", "\n")
        if self.schema is not None:
            return self._encoded(self.schema, text)
        if self.part is Part.DOCUMENT:
            return rewrap(self.record, self.headers, text)
        return text.encode()

    def with_document(self, file: bytes) -> bytes | None:
        """The record with this file as its document; None when the file is not UTF-8.

        Raises MisfitTextError.
        """
        try:
            # Some editors put a byte order mark in front, which no JSON or envelope may hold.
            text = file.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        if text == self.content:
            return self.record
        if self.schema is not None:
            return self._encoded(self.schema, text)
        return rewrap(self.record, self.headers, text)

    def _encoded(self, schema: Schema, text: str) -> bytes:
        document = body_of(text)
        if isinstance(document, Flaw):
            raise MisfitTextError(schema, f"{document.message} {document.hint}")
        record = schema.encode(document, self.record)
        if isinstance(record, Misfit):
            raise MisfitTextError(schema, str(record))
        return record

    def tried(self, record: bytes) -> bytes | None:
        """Return what the engine would try: a tombstone nobody wrote a text for stays one."""
        return None if self.is_tombstone and not record else record


def editable(error_id: UUID, scope: Scope, part: Part | None = None) -> Editable | None:
    """The failure's current record for the edit page; without `part`, the handiest one."""
    related = MessageError.objects.select_related("queue__provider")
    failures = related.filter(scope.within("queue__system"))
    error = failures.filter(pk=error_id).first()
    if error is None:
        return None
    record, headers = error.current_payload or b"", decode_headers(error.headers)
    written = written_by_schema(error.queue, record, headers)
    if written is not None:
        return _encoded(error, headers, written)
    document = read(record, headers)
    has_envelope = isinstance(document, Document) and document.wrapped
    if part is None or not has_envelope:
        part = Part.DOCUMENT if has_envelope else Part.RECORD
    content = _content(document, record, part)
    return Editable(
        error=error,
        part=part,
        has_envelope=has_envelope,
        content=content,
        text=_for_a_field(content),
        headers=headers,
    )


def _encoded(error: MessageError, headers: Headers, written: Written) -> Editable:
    content = _text_of_encoded(error.current_payload or b"", written)
    return Editable(
        error=error,
        part=Part.DOCUMENT,
        has_envelope=False,
        content=content,
        text=_for_a_field(content),
        headers=headers,
        written=written,
    )


def _text_of_encoded(record: bytes, written: Written) -> str | None:
    """The document as JSON. One that breaks its JSON Schema is text all the same."""
    if isinstance(written.content, Decoded):
        return written.content.payload
    schema = written.schema
    if not isinstance(schema, Schema) or schema.kind is not SchemaKind.JSON:
        return None
    try:
        return record[HEADER_BYTES:].decode()
    except UnicodeDecodeError:
        return None


def text_of(record: bytes, headers: Headers, part: Part, reading: Reading = read) -> str | None:
    """The text that this part of a record stands for, laid out; None when it is not text."""
    return _for_a_field(_content(reading(record, headers), record, part))


def _for_a_field(content: str | None) -> str | None:
    if content is None or len(content) > FIELD_CHARACTERS:
        return None
    text = _readable(content)
    return text if len(text) <= FIELD_CHARACTERS else None


def _readable(text: str) -> str:
    """A text of one line with a line for each member or element; any other as it is."""
    if "\n" in text.strip():
        return text
    return laid_out(text) if is_json(text) else xml_layout.laid_out(text)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _content(document: Document | Flaw | Failure, record: bytes, part: Part) -> str | None:
    if isinstance(document, Decoded):
        return document.payload
    if isinstance(document, Document) and document.wrapped and part is Part.DOCUMENT:
        return document_text(document)
    try:
        return record.decode()
    except UnicodeDecodeError:
        return None
