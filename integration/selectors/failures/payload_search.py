"""A text looked for in payloads: newest failures first, never more of them than bounded work."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import BinaryField, BooleanField, Func, Q, QuerySet, Value
from django.db.models.functions import Coalesce, Length

from integration.codec import decode_headers
from integration.models import MessageError
from integration.selectors.failures.failures import Cursor, FailureFilter, from_cursor, matching
from integration.selectors.failures.plans import planned_anew
from integration.selectors.failures.rows import FailureRow, rows_of
from integration.selectors.masking.hits import hidden_hits
from integration.selectors.paging import PAGE_ROWS
from integration.selectors.scope import Scope
from integration.text_search import PACKED, is_in_document, needles

# What one page looks through at most. The person sees at once how far it got, and goes on from
# there; with JavaScript the page does so by itself until something is found.
SCAN_ROWS: Final = 10_000
SCAN_BYTES: Final = 100 * 2**20
SCAN_SECONDS: Final = 0.04
# Where they are is asked for a lot at a time.
LOT_ROWS: Final = 500
# Payloads are looked into so many bytes at a time.
CHUNK_ROWS: Final = 125
CHUNK_BYTES: Final = 8 * 2**20
VALUE: Final = Coalesce("edited_payload", "payload")


@dataclass(frozen=True, slots=True)
class _Row:
    """A failure to look into, without its payload."""

    id: UUID
    at: datetime
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """The hits among the `looked` newest failures of the window.

    `next_after` is where to go on from; `reached` is how far back it got when it stopped early,
    None when all of the window was looked through or the page is full.
    """

    rows: tuple[FailureRow, ...]
    looked: int
    next_after: Cursor | None
    reached: datetime | None


@dataclass(slots=True)
class _Look:
    """The progress of a search. `at` is the last failure looked into."""

    hits: list[UUID]
    at: Cursor | None
    ends: float
    looked: int = 0
    looked_bytes: int = 0
    is_done: bool = False

    def is_spent(self, size: int) -> bool:
        is_enough = self.looked >= SCAN_ROWS or self.looked_bytes >= SCAN_BYTES
        is_late = self.looked > 0 and time.monotonic() >= self.ends
        return self.is_done or len(self.hits) >= size or is_enough or is_late


@planned_anew()
def search(
    filters: FailureFilter, scope: Scope, cursor: Cursor | None = None, size: int = PAGE_ROWS
) -> SearchPage:
    """Look for `filters.text` as it is written, in payloads as they came or were edited.

    Case counts. A document is taken out of its envelope for it. What is masked is not found, by
    nobody: to see it, a message is revealed by itself. Stops when the page is full,
    after SCAN_ROWS failures, SCAN_BYTES of payloads or SCAN_SECONDS, but never before the first.
    """
    begins = None if cursor is None else replace(cursor, backwards=False)
    look = _Look([], begins, time.monotonic() + SCAN_SECONDS)
    failures = matching(replace(filters, text=""), scope)
    while not look.is_spent(size):
        _look(look, failures, min(LOT_ROWS, SCAN_ROWS - look.looked), (filters.text, size))
    is_full = len(look.hits) >= size
    at = look.at if not look.is_done or is_full else None
    return SearchPage(
        rows=_rows(look.hits),
        looked=look.looked,
        next_after=at,
        reached=at.at if at is not None and not is_full else None,
    )


def _look(look: _Look, failures: QuerySet[MessageError], lot: int, what: tuple[str, int]) -> None:
    """Look into a lot of failures, newest first."""
    text, size = what
    sized = from_cursor(failures, look.at).annotate(size=Length(VALUE))
    rows = [_Row(*row) for row in sized.values_list("id", "last_failed_at", "size")[:lot]]
    for chunk in _chunks(rows):
        hits = _hits([row.id for row in chunk], text)
        for row in chunk:
            look.looked += 1
            look.looked_bytes += row.size or 0
            look.at = Cursor(row.at, row.id)
            if row.id in hits:
                look.hits.append(row.id)
            if len(look.hits) >= size:
                return
        if look.is_spent(size) and chunk[-1] is not rows[-1]:
            return
    look.is_done = len(rows) < lot


def _chunks(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    chunk: list[_Row] = []
    held = 0
    for row in rows:
        chunk.append(row)
        held += row.size or 0
        if len(chunk) >= CHUNK_ROWS or held >= CHUNK_BYTES:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _hits(ids: Sequence[UUID], text: str) -> set[UUID]:
    """Return those of these failures that hold the text."""
    failures = MessageError.objects.filter(pk__in=ids)
    has = Q()
    for needle in needles(text):
        has |= Q(_holds(needle))
    plain = set(failures.filter(has).values_list("id", flat=True))
    may_hide = Q()
    for mark in PACKED:
        may_hide |= Q(_holds(mark))
    packed = failures.filter(may_hide).values_list("id", flat=True)
    found = plain | _unpacked([id_ for id_ in packed if id_ not in plain], text)
    return found - hidden_hits(found, text) if found else found


def _holds(needle: bytes) -> Func:
    return Func(
        Value(needle, output_field=BinaryField()),
        VALUE,
        template="(position(%(expressions)s) > 0)",
        arg_joiner=" IN ",
        output_field=BooleanField(),
    )


def _unpacked(ids: Sequence[UUID], text: str) -> set[UUID]:
    """Return those of these envelopes that hold the text in their document."""
    hits = set()
    fields = ("id", "payload", "edited_payload", "headers")
    for error in MessageError.objects.filter(pk__in=ids).only(*fields).iterator(50):
        if is_in_document(text, error.current_payload or b"", decode_headers(error.headers)):
            hits.add(error.pk)
    return hits


def _rows(ids: Sequence[UUID]) -> tuple[FailureRow, ...]:
    rows = {row.id: row for row in rows_of(MessageError.objects.filter(pk__in=ids))}
    return tuple(rows[id_] for id_ in ids if id_ in rows)
