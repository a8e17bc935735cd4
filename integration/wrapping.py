"""Puts an edited document back into the record it came in, so that people edit what they know."""

import json
from decimal import Decimal

from integration.documents.exact_json import encode
from integration.envelope import Document, Flaw, read


def rewrap(record: bytes, headers: list[tuple[str, bytes | None]], text: str) -> bytes:
    """Return the record with `text` as its document, envelope kept where there is one.

    The document is written as plain text: an envelope that said "compressed" no longer does.
    A record that cannot be read is replaced as a whole.
    """
    return with_text(record, read(record, headers), text)


def with_text(record: bytes, document: Document | Flaw, text: str) -> bytes:
    """Wrap like rewrap a record that has been read already."""
    if isinstance(document, Flaw) or not document.wrapped:
        return text.encode()
    envelope = json.loads(record, parse_float=Decimal)
    envelope["payload"] = text
    envelope.pop("compressed", None)
    return encode(envelope).encode()


def document_text(document: Document) -> str | None:
    """The document as text a person may edit; None when it is not UTF-8."""
    payload = document.payload
    if isinstance(payload, str):
        return payload
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
