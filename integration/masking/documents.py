"""A document that was read, as the text that a mask and the engine read alike."""

from typing import Final

from lxml import etree

from integration.envelope import Document, Unwrapped
from integration.envelope.retry_wrapper import MESSAGE
from integration.masking.mask import Hidden, Mask
from integration.masking.places import json_places

_UTF8: Final = frozenset({"", "UTF-8", "UTF8", "ASCII", "US-ASCII"})


def hidden_in(document: Document, mask: Mask, most: int | None = None) -> Hidden | None:
    """Return the document's text with placeholders; None where all of it is to be hidden.

    So is a text of more than `most` characters.
    """
    text, mask = text_to_mask(document), mask_for(document, mask)
    if text is None or mask.hides_root or (most is not None and len(text) > most):
        return None
    return mask.document(text, is_xml=is_xml(document.body))


def mask_for(document: object, mask: Mask) -> Mask:
    """The mask as it is for this document."""
    return mask.in_wrapper if isinstance(document, Unwrapped) else mask


def text_to_mask(document: Document) -> str | None:
    """The text of a document; None where there is none that is read as the engine read it."""
    body, payload = document.body, document.payload
    if isinstance(payload, str):
        # What came decoded is UTF-8, whatever a declaration says.
        return payload.removeprefix("\ufeff")
    if isinstance(body, etree._Element):  # noqa: SLF001 - lxml's only name for it
        declared = body.getroottree().docinfo.encoding or ""
        if declared.upper() not in _UTF8:
            return etree.tostring(body, encoding="unicode")
    try:
        return payload.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None


def hides_beside(record: bytes, document: Document, mask: Mask, most: int | None = None) -> bool:
    """Return whether the envelope has anything masked outside of its payload.

    A masking path speaks of documents; what it finds in an envelope was a document's before
    somebody wrapped it, or means it. One of more than `most` characters is not gone through.
    """
    if not document.wrapped or mask.json is None:
        return False
    text = record.decode().removeprefix("\ufeff")
    if most is not None and len(text) > most:
        return True
    places = json_places(text, mask.json)
    if not isinstance(document, Unwrapped):
        return any(place.path[:1] != ("payload",) for place in places)
    inner = document.inner
    if hides_beside(document.message, inner, mask, most):
        return True
    # Who reads the topic without the wrapper has paths that begin at its root.
    hidden = hidden_in(document, mask, most)
    root = (MESSAGE, "payload") if inner.wrapped else (MESSAGE,)
    seen = set() if hidden is None else {(*root, *place.path) for place in hidden.places}
    return any(place.path not in seen for place in places)


def is_xml(body: object) -> bool:
    return isinstance(body, etree._Element)  # noqa: SLF001
