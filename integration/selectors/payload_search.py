"""A text looked for in payloads: newest failures first, never more of them than bounded work."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BinaryField, BooleanField, F, Func, Q, Value
from django.db.models.functions import Coalesce, Length

from integration.envelope import Flaw, read
from integration.models import MessageError
from integration.selectors.failures import (
    COLUMNS,
    PAGE_ROWS,
    Cursor,
    FailureFilter,
    FailureRow,
    as_row,
    from_cursor,
    matching,
)
from integration.selectors.payloads import decode_headers, document_text
from integration.selectors.plans import planned_anew
from integration.selectors.scope import Scope

# What one page looks through at most; about half a second where envelopes are compressed.
SCAN_ROWS: Final = 10_000
SCAN_BYTES: Final = 100 * 2**20
CHUNK_ROWS: Final = 250
# An envelope may hide its document from a look at the bytes: compressed, or escaped twice.
PACKED: Final = b'"payload"'


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPage:
    """What was found among the `looked` newest failures of the window.

    `older` is the cursor to go on from; `reached` is how far back it got when it stopped early,
    None when all of the window was looked through or the page is full.
    """

    rows: tuple[FailureRow, ...]
    looked: int
    older: str
    reached: datetime | None


@dataclass(slots=True)
class _Look:
    """Where a search stands."""

    hits: list[UUID]
    looked: int = 0
    looked_bytes: int = 0
    at: Cursor | None = None
    is_done: bool = False

    def is_spent(self, size: int) -> bool:
        return (
            self.is_done
            or len(self.hits) >= size
            or self.looked >= SCAN_ROWS
            or self.looked_bytes >= SCAN_BYTES
        )


@planned_anew()
def search(
    wanted: FailureFilter, scope: Scope, cursor: Cursor | None = None, size: int = PAGE_ROWS
) -> SearchPage:
    """Look for `wanted.text` as it is written, in payloads as they came or were edited.

    Case counts. A document is taken out of its envelope for it. Stops when the page is
    full, after SCAN_ROWS failures, or after SCAN_BYTES of payloads.
    """
    look = _Look([], at=None if cursor is None else replace(cursor, backwards=False))
    found = matching(replace(wanted, text=""), scope)
    needles = _needles(wanted.text)
    while not look.is_spent(size):
        chunk = list(_chunk(from_cursor(found, look.at), needles))
        look.is_done = len(chunk) < CHUNK_ROWS
        _take(look, chunk, wanted.text, size)
    is_full = len(look.hits) >= size
    at = look.at if not look.is_done or is_full else None
    return SearchPage(
        rows=_rows(look.hits),
        looked=look.looked,
        older="" if at is None else str(at),
        reached=at.at if at is not None and not is_full else None,
    )


def _needles(text: str) -> list[bytes]:
    """The text as documents and envelopes may have written it."""
    ways = (text, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1])
    return [way.encode() for way in dict.fromkeys(ways)]


def _chunk(found: Any, needles: Sequence[bytes]) -> Any:  # noqa: ANN401 - querysets with annotations
    has = Q()
    annotated = found.annotate(value=Coalesce("edited_payload", "payload"))
    for place, needle in enumerate(needles):
        name = f"has_{place}"
        annotated = annotated.annotate(**{name: _holds(needle)})
        has |= Q(**{name: True})
    return annotated.annotate(packed=_holds(PACKED), size=Length("value")).values(
        "id", "last_failed_at", "size", "packed", *(f"has_{n}" for n in range(len(needles)))
    )[:CHUNK_ROWS]


def _holds(needle: bytes) -> Func:
    return Func(
        Value(needle, output_field=BinaryField()),
        F("value"),
        template="(position(%(expressions)s) > 0)",
        arg_joiner=" IN ",
        output_field=BooleanField(),
    )


def _take(look: _Look, chunk: Sequence[dict[str, Any]], text: str, size: int) -> None:
    """Note the hits of a chunk, up to a full page."""
    seen = [row for row in chunk if any(v for k, v in row.items() if k.startswith("has_"))]
    hits = {row["id"] for row in seen}
    hits |= _unpacked([r["id"] for r in chunk if r["packed"] and r["id"] not in hits], text)
    for row in chunk:
        look.looked += 1
        look.looked_bytes += row["size"] or 0
        look.at = Cursor(row["last_failed_at"], row["id"])
        if row["id"] in hits:
            look.hits.append(row["id"])
            if len(look.hits) >= size:
                return


def _unpacked(ids: Sequence[UUID], text: str) -> set[UUID]:
    """Which of these envelopes hold the text in their document."""
    ways = [way.decode() for way in _needles(text)]
    hits = set()
    fields = ("id", "payload", "edited_payload", "headers")
    for error in MessageError.objects.filter(pk__in=ids).only(*fields).iterator(50):
        found = read(error.current_payload or b"", decode_headers(error.headers))
        document = None if isinstance(found, Flaw) else document_text(found)
        if document is not None and any(way in document for way in ways):
            hits.add(error.pk)
    return hits


def _rows(ids: Sequence[UUID]) -> tuple[FailureRow, ...]:
    found = {v["id"]: v for v in MessageError.objects.filter(pk__in=ids).values(*COLUMNS)}
    return tuple(as_row(found[id_]) for id_ in ids if id_ in found)
