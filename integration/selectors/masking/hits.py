"""Hits of a search in payloads that masking takes back: the text stands only where it is hidden."""

from collections.abc import Collection
from uuid import UUID

from integration.codec import decode_headers
from integration.envelope import Document
from integration.masking.mask import Mask
from integration.models import MessageError
from integration.registries.reading import reading_of
from integration.selectors.masking.covers import mask_of_error
from integration.selectors.masking.documents import hidden_in, hides_beside
from integration.selectors.masking.rules import masks
from integration.text_search import is_in
from integration.wrapping import with_text


def hidden_hits(ids: Collection[UUID], text: str) -> set[UUID]:
    """Return those of these failures in which nobody can see the text; one query without rules."""
    rules = masks()
    if not rules.rules:
        return set()
    errors = MessageError.objects.filter(pk__in=ids).select_related("queue__provider")
    return {
        error.pk
        for error in errors.iterator(50)
        if not _shows(error, mask_of_error(error, rules), text)
    }


def _shows(error: MessageError, mask: Mask, text: str) -> bool:
    """Return whether the text is in the message as it is shown."""
    if not mask.hides_payload:
        return True
    record, headers = error.current_payload or b"", decode_headers(error.headers)
    document = reading_of(error.queue)(record, headers)
    hidden = hidden_in(document, mask) if isinstance(document, Document) else None
    if hidden is None or not isinstance(document, Document):
        return False
    is_envelope_seen = not hides_beside(record, document, mask)
    if not hidden.places and is_envelope_seen:
        return True
    if is_in(text, hidden.text.encode(errors="replace"), []):
        return True
    return (
        is_envelope_seen
        and document.wrapped
        and is_in(text, with_text(record, document, hidden.text), headers)
    )
