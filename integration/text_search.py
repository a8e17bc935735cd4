"""Looking for a text in records as they are stored, and in the documents that envelopes hide."""

import json
from functools import lru_cache
from typing import Final

from integration.envelope import Flaw, read_unwrapped
from integration.envelope.retry_wrapper import NAME
from integration.wrapping import document_text

# What stands around a document may hide it from a look at the bytes: compressed, or escaped twice.
PACKED: Final = (b'"payload"', NAME)


@lru_cache(maxsize=16)
def needles(text: str) -> tuple[bytes, ...]:
    """The text as documents and envelopes may have written it."""
    ways = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return tuple(way.encode() for way in dict.fromkeys(ways))


def is_in_document(text: str, record: bytes, headers: list[tuple[str, bytes | None]]) -> bool:
    """Return whether the document a record comes to holds the text; of no use for broken ones."""
    content = read_unwrapped(record, headers)
    document = None if isinstance(content, Flaw) else document_text(content)
    return document is not None and any(way.decode() in document for way in needles(text))


def is_in(text: str, record: bytes, headers: list[tuple[str, bytes | None]]) -> bool:
    """Return whether a record holds the text, as it is stored or in its document."""
    if any(needle in record for needle in needles(text)):
        return True
    return any(mark in record for mark in PACKED) and is_in_document(text, record, headers)
