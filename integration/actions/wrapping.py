"""Puts an edited document back into the record it came in, so that people edit what they know."""

import json

from integration.envelope import Flaw, read


def rewrap(record: bytes, headers: list[tuple[str, bytes | None]], text: str) -> bytes:
    """Return the record with `text` as its document, envelope kept where there is one.

    The document is written as plain text: an envelope that said "compressed" no longer does.
    A record that cannot be read is replaced as a whole.
    """
    document = read(record, headers)
    if isinstance(document, Flaw) or not document.wrapped:
        return text.encode()
    envelope = json.loads(record)
    envelope["payload"] = text
    envelope.pop("compressed", None)
    return json.dumps(envelope, ensure_ascii=False, separators=(",", ":")).encode()
