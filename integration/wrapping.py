"""Puts an edited document back into the record it came in, so that people edit what they know."""

import json
from decimal import Decimal

from integration.documents.exact_json import encode
from integration.envelope import Document, Flaw, Unwrapped
from integration.envelope.retry_wrapper import with_message


def with_text(record: bytes, document: Document | Flaw, text: str) -> bytes:
    """Return the record with `text` in place of its document, which was read from it.

    Envelope and retry wrapper are kept where there are any. The document is written as plain
    text: an envelope that said "compressed" no longer does. A record that cannot be read is
    replaced as a whole.
    """
    if isinstance(document, Unwrapped):
        return with_message(record, with_text(document.message, document.inner, text))
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
