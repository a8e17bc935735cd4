"""Hits of a search in payloads that masking takes back: the text stands only where it is hidden."""

from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from integration.codec import decode_headers
from integration.envelope import Document
from integration.masking.mask import Mask
from integration.models import MessageError, Queue
from integration.registries.reading import reading_of
from integration.selectors.masking.covers import UNCOVERED, Limits, covers, mask_of_error
from integration.selectors.masking.documents import hidden_in, hides_beside
from integration.selectors.masking.rules import masks
from integration.text_search import is_in
from integration.wrapping import with_text

# Of one key there are few failures, unless it tells nothing.
MOST_BY_KEY: Final = 200


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


def shown_by_key(failures: QuerySet[MessageError]) -> QuerySet[MessageError]:
    """Those of these failures, found by their key, whose key can be seen.

    A key may be hidden by a rule of its own, or because it repeats a hidden value of the payload:
    an answer would tell that it is the one that was guessed. Where rules hide payloads no more than
    the newest MOST_BY_KEY are gone through, and no others are found.
    """
    rules = masks()
    if not rules.rules:
        return failures
    places = list(Queue.objects.values_list("pk", "system"))
    failures = failures.exclude(queue__in=rules.keyless(places))
    hiding = [queue for queue, system in places if rules.of(queue, system, ()).hides_payload]
    if not hiding:
        return failures
    columns = ("pk", "queue", "queue__system", "interface", "key")
    newest = failures.filter(queue__in=hiding).order_by("-last_failed_at")
    rows = list(newest.values_list(*columns)[:MOST_BY_KEY])
    found = covers((Limits(*limits) for *limits, _ in rows), rules)
    keys = {pk: bytes(key).decode(errors="replace") for pk, *_, key in rows}
    seen = [pk for pk, key in keys.items() if found.get(pk, UNCOVERED).key(key) == key]
    return failures.filter(~Q(queue__in=hiding) | Q(pk__in=seen))


def shown_by_told(
    failures: QuerySet[MessageError], headers: Sequence[str]
) -> QuerySet[MessageError]:
    """Those of these failures, found by what one of these headers told, of which it can be seen.

    An answer would tell that it is what was guessed. Of a queue where a rule may hide any of these
    headers no failure is found.
    """
    rules = masks()
    if not rules.rules or not headers:
        return failures
    places = Queue.objects.values_list("pk", "system")
    hiding = [pk for pk, system in places if rules.of(pk, system, ()).hides_any(headers)]
    return failures.exclude(queue__in=hiding) if hiding else failures


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
