"""Failures by filter, a page at a time: positions in the list are keys, never row numbers."""

import base64
import binascii
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Count, Min, Q, QuerySet

from integration.delivery.policy.states import OPEN
from integration.models import MessageError

PAGE_ROWS: Final = 50
COUNT_CAP: Final = 10_000
COLUMNS: Final = (
    "id",
    "version",
    "queue__name",
    "partition",
    "offset",
    "message_id",
    "interface",
    "state",
    "code",
    "text",
    "fingerprint",
    "attempts",
    "not_before",
    "edited_at",
    "expired_at",
    "first_failed_at",
    "last_failed_at",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFilter:
    """What a list shows. `state` is one state, "OPEN" for all open ones, or empty for all.

    `since` and `until` bound the last failure; all other texts must match exactly.
    """

    state: str = "OPEN"
    queue: str = ""
    interface: str = ""
    code: str = ""
    fingerprint: str = ""
    message_id: str = ""
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_default(self) -> bool:
        return self == FailureFilter()


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the list, newest failure first: after or before this row."""

    at: datetime
    row: UUID
    backwards: bool = False

    def __str__(self) -> str:
        mark = f"{'b' if self.backwards else 'a'}|{self.at.isoformat()}|{self.row}"
        return base64.urlsafe_b64encode(mark.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, mark: str) -> "Cursor | None":
        """None for anything that is not a cursor: the list then begins at its start."""
        try:
            text = base64.urlsafe_b64decode(mark + "=" * (-len(mark) % 4)).decode()
            side, at, row = text.split("|")
            moment = datetime.fromisoformat(at)
            if moment.tzinfo is None:
                return None
            return cls(moment, UUID(row), backwards=side == "b")
        except (ValueError, binascii.Error):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """One line of the list."""

    id: UUID
    version: int
    queue: str
    partition: int
    offset: int
    message_id: str
    interface: str
    state: str
    code: str
    text: str
    fingerprint: str
    attempts: int
    not_before: datetime | None
    is_edited: bool
    is_expired: bool
    first_failed_at: datetime
    last_failed_at: datetime


@dataclass(frozen=True, slots=True)
class FailurePage:
    """One page; `count` stops at the cap, `newer` and `older` are cursors or empty."""

    rows: tuple[FailureRow, ...]
    count: int
    newer: str
    older: str

    @property
    def is_capped(self) -> bool:
        return self.count > COUNT_CAP

    @property
    def shown_count(self) -> int:
        return min(self.count, COUNT_CAP)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a selection."""

    queue: str
    state: str
    count: int
    oldest: datetime


def page(wanted: FailureFilter, cursor: Cursor | None = None, size: int = PAGE_ROWS) -> FailurePage:
    """The rows at the cursor, in two queries."""
    matching = _matching(wanted)
    found = list(_from(matching, cursor).values(*COLUMNS)[: size + 1])
    has_more = len(found) > size
    rows = [as_row(values) for values in found[:size]]
    is_backwards = cursor is not None and cursor.backwards
    if is_backwards:
        rows.reverse()
    has_newer = has_more if is_backwards else cursor is not None
    has_older = True if is_backwards else has_more
    first, last = (rows[0], rows[-1]) if rows else (None, None)
    return FailurePage(
        rows=tuple(rows),
        count=count(wanted),
        newer=_mark(first, backwards=True) if has_newer else "",
        older=_mark(last, backwards=False) if has_older else "",
    )


def count(wanted: FailureFilter) -> int:
    """How many match, at most one more than the cap: exact counts of big tables are slow."""
    return _matching(wanted).order_by()[: COUNT_CAP + 1].count()


def selection(wanted: FailureFilter, limit: int = COUNT_CAP) -> dict[UUID, int]:
    """The failures that match with their versions, oldest first, for an action on all of them."""
    found = _matching(wanted).order_by("last_failed_at", "id").values_list("id", "version")
    return dict(found[:limit])


def summary(error_ids: Collection[UUID]) -> list[Share]:
    """What a selection consists of, by queue and state; those that are gone are missing."""
    found = (
        MessageError.objects.filter(pk__in=error_ids)
        .order_by("queue__name", "state")
        .values_list("queue__name", "state")
        .annotate(count=Count("pk"), oldest=Min("first_failed_at"))
    )
    return [Share(*row) for row in found]


def codes(limit: int = 200) -> list[str]:
    """Codes of open failures, for a filter."""
    found = MessageError.objects.filter(state__in=OPEN).order_by("code").values_list("code")
    return [code for (code,) in found.distinct()[:limit]]


def _matching(wanted: FailureFilter) -> QuerySet[MessageError]:
    exact = {
        "queue__name": wanted.queue,
        "interface": wanted.interface,
        "code": wanted.code,
        "fingerprint": wanted.fingerprint,
        "message_id": wanted.message_id,
    }
    found = MessageError.objects.filter(**{name: text for name, text in exact.items() if text})
    if wanted.state == "OPEN":
        found = found.filter(state__in=OPEN)
    elif wanted.state:
        found = found.filter(state=wanted.state)
    if wanted.since is not None:
        found = found.filter(last_failed_at__gte=wanted.since)
    if wanted.until is not None:
        found = found.filter(last_failed_at__lte=wanted.until)
    return found


def _from(found: QuerySet[MessageError], cursor: Cursor | None) -> QuerySet[MessageError]:
    if cursor is None:
        return found.order_by("-last_failed_at", "id")
    # The first condition lets the index on (last_failed_at, id) find the place.
    if cursor.backwards:
        newer = Q(last_failed_at__gt=cursor.at) | Q(id__lt=cursor.row)
        at = found.filter(newer, last_failed_at__gte=cursor.at)
        return at.order_by("last_failed_at", "-id")
    older = Q(last_failed_at__lt=cursor.at) | Q(id__gt=cursor.row)
    return found.filter(older, last_failed_at__lte=cursor.at).order_by("-last_failed_at", "id")


def as_row(values: Mapping[str, object]) -> FailureRow:
    """A line from its columns."""
    row = dict(values)
    row["queue"] = row.pop("queue__name")
    row["is_edited"] = row.pop("edited_at") is not None
    row["is_expired"] = row.pop("expired_at") is not None
    return FailureRow(**row)  # type: ignore[arg-type] # the columns are its fields, by name


def _mark(row: FailureRow | None, *, backwards: bool) -> str:
    return "" if row is None else str(Cursor(row.last_failed_at, row.id, backwards))
