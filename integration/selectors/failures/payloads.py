"""A record as people can read it: the document in it, laid out, and the bytes as they came.

What a mask hides is hidden here, for every page and every answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from json import JSONDecoder
from pathlib import PurePath
from typing import Final, NamedTuple

from lxml import etree

from integration.codec import decode_headers
from integration.documents.layout import laid_out
from integration.envelope import JSON, XML, Document, Flaw, read
from integration.handlers.outgoing import SENDER
from integration.masking.mask import HIDDEN, Mask
from integration.models import MessageError
from integration.policy.failure import Failure
from integration.registries.reading import Reading
from integration.selectors.masking.covers import Cover
from integration.selectors.masking.documents import hidden_in, hides_beside
from integration.wrapping import document_text, with_text

Binary = bytes | memoryview | None
Headers = list[tuple[str, bytes | None]]

SHOWN_CHARACTERS: Final = 200_000
SHOWN_OF_SENDER: Final = 200
SHOWN_OF_ROW: Final = 4_000
SHOWN_BYTES_AS_HEX: Final = 4_096
# A line of a list shows no more of a key: one that was refused for its length may have any.
KEY_BYTES: Final = 200
_BLANKS: Final = " \t\r\n"
_RUN, _FILE, _LINE = "sluice-run", "sluice-file", "sluice-line"
# Nothing is converted: numbers of any length are only looked at.
_GRAMMAR: Final = JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadView:
    """One version of a record. `pretty` is empty when it cannot be read.

    `flaw_code` and `flaw_text` tell why not. `raw` is text, or a hex dump when `is_hex`; empty when
    it could not be shown without what is hidden. `masked` counts the values that are hidden;
    `is_hidden`: all of it is, because it could not be gone through.
    """

    size: int
    is_absent: bool = False
    is_wrapped: bool = False
    pretty: str = ""
    raw: str = ""
    is_hex: bool = False
    is_cut: bool = False
    flaw_code: str = ""
    flaw_text: str = ""
    masked: int = 0
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The parts of a message that only some people may see; `original` of an edited one."""

    current: PayloadView
    original: PayloadView | None = None
    key: str
    headers: tuple[tuple[str, str], ...]

    @property
    def is_masked(self) -> bool:
        """Return whether anything of it is hidden."""
        views = [view for view in (self.current, self.original) if view is not None]
        texts = (self.key, *(value for _, value in self.headers))
        return any(view.masked or view.is_hidden for view in views) or any(
            HIDDEN[:-1] in text for text in texts
        )


class BulkRow(NamedTuple):
    """The place of a row: the file's name, and its line in it (the row's number in Parquet)."""

    file: str
    line: str


def sender_of(error: MessageError, cover: Cover) -> tuple[str, bool]:
    """Tell who sent a message, and whether only its header says so; empty where nothing does.

    The header is all there is of a message whose envelope could not be read. It may be hidden.
    """
    if error.sender:
        return error.sender, False
    values = [value for name, value in decode_headers(error.headers) if name == SENDER and value]
    sender = bytes_as_text(values[-1])[:SHOWN_OF_SENDER] if values else ""
    return cover.mask.header(SENDER, sender), bool(sender)


def row_of(error: MessageError) -> BulkRow | None:
    """The row of a bulk run's input that was rejected; None for a message of a topic.

    The run itself wrote these headers, and names itself where a topic stands: a message that
    carries them too is no row.
    """
    headers = {name: bytes_as_text(value) for name, value in decode_headers(error.headers)}
    if headers.get(_RUN) != error.topic_uuid:
        return None
    return BulkRow(PurePath(headers.get(_FILE, "")).name, headers.get(_LINE, ""))


def text_of_row(error: MessageError, cover: Cover) -> str:
    """Return the text of a rejected row as it stands in its file, or its beginning.

    It may be of columns that are not in the payload. Where a rule speaks of documents it is hidden
    whole: a value may be written in another way there. Empty for a message of a topic.
    """
    if row_of(error) is None:
        return ""
    _, _, text = error.detail.partition("\n")
    if text and cover.mask.hides_payload:
        return HIDDEN
    text = cover.text(text)
    return text if len(text) <= SHOWN_OF_ROW else f"{text[:SHOWN_OF_ROW]}…"


def contents_of(
    value: Binary,
    key: Binary,
    stored_headers: Sequence[Sequence[str | None]],
    reading: Reading = read,
    *,
    mask: Mask,
) -> Contents:
    """Value, key and headers as they are stored, laid out for reading, without what is hidden."""
    headers = decode_headers(stored_headers)
    shown = tuple((name, mask.header(name, bytes_as_text(text))) for name, text in headers)
    view = show(value, headers, reading, mask=mask)
    return Contents(current=view, key=mask.key_text(bytes_as_text(key)), headers=shown)


def show(value: Binary, headers: Headers, reading: Reading = read, *, mask: Mask) -> PayloadView:
    """Show a record as a page does. Never raises, whatever the bytes are."""
    if value is None:
        return PayloadView(size=0, is_absent=True)
    record = bytes(value)
    raw, is_hex, is_cut = _as_text(record)
    view = PayloadView(size=len(record), raw=raw, is_hex=is_hex, is_cut=is_cut)
    content = reading(record, headers)
    if isinstance(content, Failure):
        view = replace(view, flaw_code=content.code, flaw_text=content.text)
        return hidden_view(view) if mask.hides_payload else view
    if isinstance(content, Flaw):
        flaw_text = f"{content.message} {content.hint}"
        view = replace(view, flaw_code=content.code, flaw_text=flaw_text)
        return hidden_view(view) if mask.hides_payload else view
    if mask.hides_payload:
        return _masked(replace(view, is_wrapped=content.wrapped), record, content, mask)
    return _with_pretty(replace(view, is_wrapped=content.wrapped), _pretty(content))


def hidden_view(view: PayloadView) -> PayloadView:
    """The view of a record of which nothing but its size is shown."""
    return replace(view, pretty="", raw="", is_hex=False, is_cut=False, is_hidden=True)


def _with_pretty(view: PayloadView, pretty: str) -> PayloadView:
    is_cut = view.is_cut or len(pretty) > SHOWN_CHARACTERS
    return replace(view, pretty=pretty[:SHOWN_CHARACTERS], is_cut=is_cut)


def _masked(view: PayloadView, record: bytes, content: Document, mask: Mask) -> PayloadView:
    hidden = hidden_in(content, mask)
    if hidden is None:
        return hidden_view(view)
    is_beside = hides_beside(record, content, mask)
    if not hidden.places and not is_beside:
        return _with_pretty(view, _pretty(content))
    is_xml = content.mimetype == XML
    pretty = _pretty_xml_text(hidden.text) if is_xml else laid_out(hidden.text)
    raw = hidden.text
    if is_beside:
        raw = ""
    elif content.wrapped:
        raw = with_text(record, content, hidden.text).decode()
    elif view.is_hex:
        # The bytes of a registry's format, or of another encoding, say it all.
        raw = ""
    shown = replace(
        view,
        raw=raw[:SHOWN_CHARACTERS],
        is_hex=False,
        is_cut=len(raw) > SHOWN_CHARACTERS,
        masked=len(hidden.places) + is_beside,
    )
    return _with_pretty(shown, pretty)


def bytes_as_text(value: Binary) -> str:
    """A key or header value on one line."""
    if value is None:
        return ""
    content = bytes(value)
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return "0x" + content[:200].hex()
    return text if text.isprintable() else "0x" + content[:200].hex()


def key_text(start: bytes | memoryview | None) -> str:
    """The first KEY_BYTES of a key as text; a character that was cut in two is left out.

    >>> key_text("4711-ä".encode())
    '4711-ä'
    """
    key = b"" if start is None else bytes(start)
    if len(key) < KEY_BYTES:
        return bytes_as_text(key)
    try:
        key.decode()
    except UnicodeDecodeError as flaw:
        whole = key[: flaw.start]
        return bytes_as_text(whole if flaw.reason == "unexpected end of data" else key)
    return bytes_as_text(key)


def is_json(text: str) -> bool:
    """Return whether JSON's grammar has it as object or array, so that it may get blanks.

    More generous than the engine: a key named twice, NaN or a number that is too long stays in
    the text whatever its layout.
    """
    if text.lstrip(_BLANKS)[:1] not in {"{", "["}:
        return False
    try:
        _GRAMMAR.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _pretty(document: Document) -> str:
    if document.mimetype == XML and isinstance(document.body, etree._Element):  # noqa: SLF001 - its only name
        return _pretty_xml(document.body)
    text = document_text(document)
    if document.mimetype == JSON and text is not None:
        return laid_out(text)
    return text or ""


def _pretty_xml(element: etree._Element) -> str:
    """A copy is laid out: the parsed document is not ours to change."""
    copy = etree.fromstring(etree.tostring(element), _BLANKLESS)
    return etree.tostring(copy, pretty_print=True, encoding="unicode")


def _pretty_xml_text(text: str) -> str:
    """The same for a text, whose declaration may name an encoding that it has no more."""
    root = etree.fromstring(text.encode(), _UTF8_BLANKLESS)
    return etree.tostring(root, pretty_print=True, encoding="unicode")


_UTF8_BLANKLESS: Final = etree.XMLParser(
    encoding="utf-8",
    remove_blank_text=True,
    resolve_entities=False,
    no_network=True,
    load_dtd=False,
    remove_comments=True,
    remove_pis=True,
)
_BLANKLESS: Final = etree.XMLParser(
    remove_blank_text=True, resolve_entities=False, no_network=True, load_dtd=False
)


def _as_text(record: bytes) -> tuple[str, bool, bool]:
    """(text, whether it is a hex dump, whether its end is left out)."""
    try:
        text = record.decode()
    except UnicodeDecodeError:
        cut = record[:SHOWN_BYTES_AS_HEX]
        return _hex_dump(cut), True, len(cut) < len(record)
    return text[:SHOWN_CHARACTERS], False, len(text) > SHOWN_CHARACTERS


def _hex_dump(record: bytes) -> str:
    lines = []
    for start in range(0, len(record), 16):
        part = record[start : start + 16]
        text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {text}")
    return "\n".join(lines)
