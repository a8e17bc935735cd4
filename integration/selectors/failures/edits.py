"""The part of a held message that a person edits: the document, or the whole record."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from integration.codec import decode_headers
from integration.documents.layout import laid_out
from integration.envelope import Document, Flaw, read
from integration.models import MessageError
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Editable:
    """`content` is the part as it is written, None when its bytes are not text.

    `text` is what an editor shows of it: None for what is not text or too long for a text field,
    which can only be replaced by a file.
    """

    error: MessageError
    part: Part
    has_envelope: bool
    content: str | None
    text: str | None
    headers: Headers

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
        """The record with the edited text in it; untouched, it stays as it is to the byte."""
        # A browser sends every line end as CR LF, whatever the text had.
        if self.text is not None and _lines(text) == _lines(self.text):
            return self.record
        if self.text is not None and "\r\n" not in self.text:
            text = text.replace("\r\n", "\n")
        if self.part is Part.DOCUMENT:
            return rewrap(self.record, self.headers, text)
        return text.encode()

    def with_document(self, file: bytes) -> bytes | None:
        """The record with this file as its document; None when the file is not UTF-8."""
        try:
            # Some editors put a byte order mark in front, which no JSON or envelope may hold.
            text = file.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        return self.record if text == self.content else rewrap(self.record, self.headers, text)

    def tried(self, record: bytes) -> bytes | None:
        """Return what the engine would try: a tombstone nobody wrote a text for stays one."""
        return None if self.is_tombstone and not record else record


def editable(error_id: UUID, scope: Scope, part: Part | None = None) -> Editable | None:
    """The failure's current record for the edit page; without `part`, the handiest one."""
    failures = MessageError.objects.select_related("queue").filter(scope.within("queue__system"))
    error = failures.filter(pk=error_id).first()
    if error is None:
        return None
    record, headers = error.current_payload or b"", decode_headers(error.headers)
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


def text_of(record: bytes, headers: Headers, part: Part) -> str | None:
    """The text that this part of a record stands for, laid out; None when it is not text."""
    return _for_a_field(_content(read(record, headers), record, part))


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


def _content(document: Document | Flaw, record: bytes, part: Part) -> str | None:
    if isinstance(document, Document) and document.wrapped and part is Part.DOCUMENT:
        return document_text(document)
    try:
        return record.decode()
    except UnicodeDecodeError:
        return None
