"""A document that was read, as text without what a mask hides of it."""

from typing import Final

from lxml import etree

from integration.envelope import Document, Flaw, body_of
from integration.masking.mask import Hidden, Mask
from integration.registries.reading import Reading
from integration.values import Headers
from integration.wrapping import document_text

# A longer document is hidden whole: no page waits until all of it is gone through.
MOST_CHARACTERS: Final = 2**20
_UTF8: Final = frozenset({"", "UTF-8", "UTF8", "ASCII", "US-ASCII"})


def hidden_in(document: Document, mask: Mask) -> Hidden | None:
    """Return the document's text with placeholders; None where all of it is to be hidden."""
    is_xml = isinstance(document.body, etree._Element)  # noqa: SLF001 - lxml's only name for it
    text = text_to_mask(document)
    if text is None or len(text) > MOST_CHARACTERS:
        return None
    return mask.document(text, is_xml=is_xml)


def masked_text(text: str, mask: Mask) -> str | None:
    """A stored document's text with placeholders; None where all of it is to be hidden."""
    if not text or not mask.hides_payload:
        return text
    body = body_of(text)
    if isinstance(body, Flaw) or len(text) > MOST_CHARACTERS:
        return None
    hidden = mask.document(text, is_xml=isinstance(body, etree._Element))  # noqa: SLF001
    return None if hidden is None else hidden.text


def text_to_mask(document: Document) -> str | None:
    """The text of a document that a mask and the engine read alike; None where there is none."""
    body = document.body
    if isinstance(body, etree._Element):  # noqa: SLF001
        declared = body.getroottree().docinfo.encoding or ""
        # A text that came decoded is UTF-8, whatever its declaration says.
        if declared.upper() not in _UTF8 and isinstance(document.payload, bytes):
            return etree.tostring(body, encoding="unicode")
    text = document_text(document)
    return None if text is None else text.removeprefix("\ufeff")


def hides_some(record: bytes, headers: Headers, reading: Reading, mask: Mask) -> bool:
    """Return whether anything of a record is hidden."""
    if not mask.hides_payload:
        return False
    document = reading(record, headers)
    hidden = hidden_in(document, mask) if isinstance(document, Document) else None
    return hidden is None or bool(hidden.places)
