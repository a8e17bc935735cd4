"""Documents of messages and stored ones, without what a mask hides, as far as a page waits."""

from typing import Final

from integration.envelope import Document, Flaw, body_of
from integration.masking import documents
from integration.masking.documents import is_xml
from integration.masking.mask import Hidden, Mask
from integration.registries.reading import Reading
from integration.values import Headers

# A longer document is hidden whole: no page waits until all of it is gone through.
MOST_CHARACTERS: Final = 2**20


def hidden_in(document: Document, mask: Mask) -> Hidden | None:
    """Return the document's text with placeholders; None where all of it is to be hidden."""
    return documents.hidden_in(document, mask, MOST_CHARACTERS)


def hides_beside(record: bytes, document: Document, mask: Mask) -> bool:
    """Return whether the envelope of a record is not to be shown, whatever is in its payload."""
    return documents.hides_beside(record, document, mask, MOST_CHARACTERS)


def hides_some(record: bytes, headers: Headers, reading: Reading, mask: Mask) -> bool:
    """Return whether anything of a record is hidden."""
    if not mask.hides_payload:
        return False
    document = reading(record, headers)
    hidden = hidden_in(document, mask) if isinstance(document, Document) else None
    if hidden is None or not isinstance(document, Document):
        return True
    return bool(hidden.places) or hides_beside(record, document, mask)


def masked_text(text: str, mask: Mask) -> str | None:
    """A stored document's text with placeholders; None where all of it is to be hidden."""
    if not text or not mask.hides_payload:
        return text
    body = body_of(text)
    if isinstance(body, Flaw) or len(text) > MOST_CHARACTERS:
        return None
    hidden = mask.document(text, is_xml=is_xml(body))
    return None if hidden is None else hidden.text
