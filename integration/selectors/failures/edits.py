"""The part of a held message that a person edits: the document, or the whole record."""

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from uuid import UUID

from integration.codec import decode_headers
from integration.envelope import Document, Flaw, body_of, layers_of, read
from integration.errors import IntegrationError
from integration.formats.documents import Decoded
from integration.formats.schema import Misfit, Schema, SchemaKind
from integration.formats.wire import HEADER_BYTES
from integration.masking.documents import mask_for, text_to_mask
from integration.masking.mask import NOTHING, PLACEHOLDER, Mask
from integration.masking.restoring import Misplaced, restored
from integration.models import MessageError
from integration.policy.failure import Failure
from integration.registries.reading import (
    Reading,
    Written,
    plain_reading_of,
    reading_of,
    written_by_schema,
)
from integration.selectors.failures.payloads import Headers
from integration.selectors.failures.text_fields import for_a_field
from integration.selectors.masking.covers import (
    UNCOVERED,
    Content,
    Cover,
    cover_of,
    mask_of_error,
    unknown_cover,
)
from integration.selectors.masking.documents import hidden_in, hides_beside
from integration.selectors.masking.errors import (
    NO_VALUE,
    UNCOVERED_PLACE,
    WHOLE_RECORD,
    MaskMovedError,
)
from integration.selectors.masking.rules import any_rules
from integration.selectors.scope import Scope
from integration.wrapping import document_text, with_text


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
    which can only be replaced by a file. `layers`: in how many wrappings its document stands.
    `written` is a message of a schema registry's: what is edited of it is its document, as JSON.
    `cover` is what is hidden of it, `mask` what of its text: placeholders stand there, and
    `true_text` has the values that come back where those are left alone; `is_hidden`: none of it
    can be shown, so that it can only be replaced. `masked` is a revealed message as it stands
    without the reveal: a text may be older than that.
    """

    error: MessageError
    part: Part
    has_envelope: bool
    content: str | None
    text: str | None
    headers: Headers
    layers: int = 0
    written: Written | None = None
    cover: Cover = UNCOVERED
    mask: Mask = NOTHING
    true_text: str | None = None
    is_hidden: bool = False
    is_revealed: bool = False
    masked: "Editable | None" = None

    @property
    def is_masked(self) -> bool:
        """Return whether placeholders stand in the text."""
        return self.true_text is not None

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

        Raises MisfitTextError, MaskMovedError.
        """
        if self.masked is not None and self.masked.part is self.part and self._stray(text):
            return self.masked.composed(text)
        # A browser sends every line end as CR LF, whatever the text had.
        if self.text is not None and _lines(text) == _lines(self.text):
            return self.record
        if self.text is not None and "\r\n" not in self.text:
            text = text.replace("\r\n", "\n")
        return self._made(self._with_true_values(text), is_document=self.part is Part.DOCUMENT)

    def with_document(self, file: bytes) -> bytes | None:
        """The record with this file as its document; None when the file is not UTF-8.

        Raises MisfitTextError, MaskMovedError.
        """
        try:
            # Some editors put a byte order mark in front, which no JSON or envelope may hold.
            text = file.decode("utf-8-sig")
        except UnicodeDecodeError:
            return None
        if self.masked is not None and self._stray(text):
            return self.masked.with_document(file)
        if text == self.content:
            return self.record
        return self._made(self._with_true_values(text), is_document=True)

    def replaced_by(self, record: bytes) -> bytes:
        """These bytes instead of the whole record. Raises MaskMovedError for a placeholder."""
        came = "" if self.cover.mask.hides_payload else self.record.decode(errors="replace")
        stray = _beyond(record.decode(errors="replace"), came)
        if stray:
            raise MaskMovedError(f"“{stray}” stands in a file that replaces the whole record.")
        return record

    def _stray(self, text: str) -> str:
        """A placeholder that is none of the message's own texts; empty without one."""
        return _beyond(text, self.content or "")

    def _made(self, text: str, *, is_document: bool) -> bytes:
        if self.schema is not None:
            record = self._encoded(self.schema, text)
        else:
            record = self._in_record(text) if is_document else text.encode()
        if self.true_text is not None:
            if is_document and self._is_whole(text):
                raise MaskMovedError(WHOLE_RECORD)
            if self._uncovers(text, record):
                raise MaskMovedError(UNCOVERED_PLACE)
        return record

    def _in_record(self, text: str) -> bytes:
        document = plain_reading_of(self.error.queue)(self.record, self.headers)
        return with_text(self.record, document, text)

    def _is_whole(self, text: str) -> bool:
        """Return whether the text for the document brings an envelope or wrapper of its own.

        So does one that was opened while the whole record could be edited.
        """
        own = self.true_text or ""
        return self.layers > 0 and self._layers_in(text) > self._layers_in(own)

    def _layers_in(self, text: str) -> int:
        found = plain_reading_of(self.error.queue)(text.encode(), self.headers)
        return layers_of(found) if isinstance(found, Document) else 0

    def _uncovers(self, text: str, record: bytes) -> bool:
        """Return whether the new record would show what is hidden of its text."""
        mask, is_xml = self.mask, (self.true_text or "").lstrip().startswith("<")
        meant = mask.document(text, is_xml=is_xml)
        if meant is not None and not meant.places:
            return False
        document = self.reading(record, self.headers)
        hidden = hidden_in(document, mask) if isinstance(document, Document) else None
        if hidden is None or meant is None or not isinstance(document, Document):
            return False  # All of it is hidden.
        moved = Counter(p.path for p in meant.places) - Counter(p.path for p in hidden.places)
        return bool(moved) or layers_of(document) != self.layers

    def _with_true_values(self, text: str) -> str:
        if self.true_text is None:
            stray = self._stray(text)
            if stray:
                raise MaskMovedError(f"“{stray}” {NO_VALUE}")
            return text
        is_xml = self.true_text.lstrip().startswith("<")
        made = restored(text, self.true_text, self.mask, is_xml=is_xml)
        if isinstance(made, Misplaced):
            raise MaskMovedError(made.why)
        return made

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


def editable(
    error_id: UUID, scope: Scope, part: Part | None = None, *, is_revealed: bool = False
) -> Editable | None:
    """The failure's current record for the edit page; without `part`, the handiest one.

    Unless it `is_revealed`, placeholders stand for what masking rules hide.
    """
    related = MessageError.objects.select_related("queue__provider")
    failures = related.annotate(has_rules=any_rules()).filter(scope.within("queue__system"))
    error = failures.filter(pk=error_id).first()
    if error is None:
        return None
    rules = mask_of_error(error) if error.has_rules else NOTHING
    cover = UNCOVERED if is_revealed else cover_of(error, rules)
    error.text = cover.text(error.text, error.code)
    record, headers = error.current_payload or b"", decode_headers(error.headers)
    written = written_by_schema(error.queue, record, headers)
    content: Content
    if written is not None:
        message, content = _encoded(error, headers, written), written.content
    else:
        content = plain_reading_of(error.queue)(record, headers)
        message = _plain(error, headers, content, part)
    message = replace(message, is_revealed=is_revealed)
    if is_revealed and rules.hides_payload:
        return replace(message, masked=_masked(message, content, unknown_cover(rules)))
    return _masked(message, content, cover)


def _plain(
    error: MessageError, headers: Headers, document: Document | Flaw, part: Part | None
) -> Editable:
    has_envelope = isinstance(document, Document) and document.wrapped
    if part is None or not has_envelope:
        part = Part.DOCUMENT if has_envelope else Part.RECORD
    content = _content(document, error.current_payload or b"", part)
    return Editable(
        error=error,
        part=part,
        has_envelope=has_envelope,
        content=content,
        text=for_a_field(content),
        headers=headers,
        layers=layers_of(document) if isinstance(document, Document) else 0,
    )


def _masked(message: Editable, document: Content, cover: Cover) -> Editable:
    """The same message with placeholders for what is hidden of it."""
    message = replace(message, cover=cover, mask=mask_for(document, cover.mask))
    if not cover.mask.hides_payload or message.is_tombstone:
        return message
    hidden = hidden_in(document, cover.mask) if isinstance(document, Document) else None
    true_text = text_to_mask(document) if isinstance(document, Document) else None
    if hidden is None or true_text is None:
        return replace(message, content=None, text=None, is_hidden=True)
    is_beside = isinstance(document, Document) and hides_beside(
        message.record, document, cover.mask
    )
    if message.content is None or not (hidden.places or is_beside):
        return message
    # Its envelope holds the document once more: with hidden values it is edited by itself.
    part = Part.DOCUMENT if message.has_envelope else message.part
    return replace(
        message,
        part=part,
        content=hidden.text,
        text=for_a_field(hidden.text),
        true_text=true_text,
    )


def _encoded(error: MessageError, headers: Headers, written: Written) -> Editable:
    content = _text_of_encoded(error.current_payload or b"", written)
    return Editable(
        error=error,
        part=Part.DOCUMENT,
        has_envelope=False,
        content=content,
        text=for_a_field(content),
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


def text_of(
    record: bytes, headers: Headers, part: Part, reading: Reading = read, *, mask: Mask
) -> str | None:
    """The text that this part of a record stands for, laid out; None when it is not text.

    Placeholders stand for what is hidden; None, too, where all of it is.
    """
    document = reading(record, headers)
    content = _content(document, record, part)
    if content is None or not mask.hides_payload:
        return for_a_field(content)
    hidden = hidden_in(document, mask) if isinstance(document, Document) else None
    if hidden is None or not isinstance(document, Document):
        return None
    is_record = document.wrapped and part is Part.RECORD
    if is_record and hides_beside(record, document, mask):
        return None
    if not hidden.places:
        return for_a_field(content)
    text = with_text(record, document, hidden.text).decode() if is_record else hidden.text
    return for_a_field(text)


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _beyond(text: str, own: str) -> str:
    """The first placeholder of a number that stands in `text` more often than in `own`, or ""."""
    left = Counter(PLACEHOLDER.findall(own))
    for said in PLACEHOLDER.finditer(text):
        if not left[said[1]]:
            return said[0]
        left[said[1]] -= 1
    return ""


def _content(document: Content, record: bytes, part: Part) -> str | None:
    if isinstance(document, Decoded):
        return document.payload
    if isinstance(document, Document) and document.wrapped and part is Part.DOCUMENT:
        return document_text(document)
    try:
        return record.decode()
    except UnicodeDecodeError:
        return None
