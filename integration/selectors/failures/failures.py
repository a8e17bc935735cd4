"""Failures by filter, a page at a time: positions in the list are keys, never row numbers."""

import base64
import binascii
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet

from integration.envelope.dead_letters import CAUSE_HEADERS, TOPIC_HEADERS
from integration.models import MessageError, Queue
from integration.policy.states import OPEN
from integration.selectors.failures.cause_ids import fingerprint_of
from integration.selectors.failures.plans import planned_anew
from integration.selectors.failures.rows import FailureRow, rows_of
from integration.selectors.masking.hits import shown_by_key, shown_by_told
from integration.selectors.paging import PAGE_ROWS, Page, capped_count
from integration.selectors.scope import Scope
from integration.store.sessions import fetch_all

# Further counting costs time and tells nobody more: of rare rows each one has to be looked for.
COUNT_CAP: Final = 1_000
# Stands in a filter for what has none: messages of no known service, queues of no system.
WITHOUT: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFilter:
    """The filter of a list. `state` is one state, "OPEN" for all open ones, or empty for all.

    `since` and `until` bound the last failure. `text` is looked for in payloads, which only
    selectors.payload_search does; all other texts must match exactly, WITHOUT matches none. `run`
    is the id of a bulk run: its rejects; `fingerprint` that of a cause.
    """

    state: str = "OPEN"
    queue: str = ""
    system: str = ""
    interface: str = ""
    code: str = ""
    fingerprint: str = ""
    message_id: str = ""
    run: str = ""
    key: str = ""
    text: str = ""
    origin_topic: str = ""
    cause_class: str = ""
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


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of a filter: names that there are."""

    queues: tuple[str, ...]
    systems: tuple[str, ...]
    codes: tuple[str, ...] = ()


@planned_anew()
def page(
    filters: FailureFilter, scope: Scope, cursor: Cursor | None = None, size: int = PAGE_ROWS
) -> Page[FailureRow, Cursor]:
    """The rows at the cursor, in two queries, and one more where queue or system are named.

    All that fits on the first page is not counted again.
    """
    matching_rows = matching(filters, scope)
    fetched = rows_of(from_cursor(matching_rows, cursor), size + 1)
    rows, has_more = fetched[:size], len(fetched) > size
    is_backwards = cursor is not None and cursor.backwards
    if is_backwards:
        rows.reverse()
    has_newer = has_more if is_backwards else cursor is not None
    has_older = True if is_backwards else has_more
    first, last = (rows[0], rows[-1]) if rows else (None, None)
    is_all = cursor is None and not has_more
    return Page(
        rows=tuple(rows),
        count=len(rows) if is_all else capped_count(matching_rows, COUNT_CAP),
        cap=COUNT_CAP,
        next_after=_at(last) if has_older else None,
        before=_at(first, backwards=True) if has_newer else None,
    )


@planned_anew()
def count(filters: FailureFilter, scope: Scope) -> int:
    """Count what matches, no further than COUNT_CAP + 1; queries as `page` makes them."""
    return capped_count(matching(filters, scope), COUNT_CAP)


@planned_anew()
def neighbours(filters: FailureFilter, scope: Scope, row: MessageError) -> tuple[UUID | None, ...]:
    """The newer and the older neighbour of a failure in a list, in two queries."""
    failures = matching(filters, scope)
    sides = (Cursor(row.last_failed_at, row.pk, is_newer) for is_newer in (True, False))
    return tuple(from_cursor(failures, side).values_list("pk", flat=True).first() for side in sides)


# Each code is one probe of the index, however many failures have it.
CODES: Final = """
WITH RECURSIVE found AS (
  (SELECT code FROM integration_messageerror ORDER BY code LIMIT 1)
  UNION ALL
  SELECT (SELECT e.code FROM integration_messageerror e WHERE e.code > found.code
          ORDER BY e.code LIMIT 1) FROM found WHERE found.code IS NOT NULL
)
SELECT code FROM found WHERE code IS NOT NULL LIMIT 200
"""


def names(scope: Scope) -> Choices:
    """List what filters offer that know of no codes, in one query."""
    named = list(
        Queue.objects.filter(scope.within("system"))
        .order_by("name")
        .values_list("name", "system__name")
    )
    systems = sorted({system for _, system in named if system})
    return Choices(tuple(queue for queue, _ in named), tuple(systems))


def choices(scope: Scope) -> Choices:
    """List what the filter offers, in two queries. Codes belong to nobody: all are offered."""
    return replace(names(scope), codes=tuple(code for (code,) in fetch_all(CODES)))


def matching(filters: FailureFilter, scope: Scope) -> QuerySet[MessageError]:
    """The failures of a filter, in no order. Raises ValueError for a text in payloads.

    No condition of the database's finds that one, so that an action by it would reach others.
    """
    if filters.text:
        raise ValueError("A text in payloads is no condition; see selectors.payload_search.")
    exact = {
        "interface": filters.interface,
        "code": filters.code,
        "fingerprint": fingerprint_of(filters.fingerprint),
        "message_id": filters.message_id,
        "origin_topic": filters.origin_topic,
        "cause_class": filters.cause_class,
    }
    conditions = {name: "" if text == WITHOUT else text for name, text in exact.items() if text}
    failures = MessageError.objects.filter(_queues(filters, scope), **conditions)
    if filters.state:
        states = OPEN if filters.state == "OPEN" else {filters.state}
        failures = failures.filter(state__in=sorted(states))
    if filters.run:
        # Where no record of Kafka can stand: its topic is the run.
        failures = failures.filter(topic_uuid=filters.run)
    if filters.key:
        failures = failures.filter(key__in=_keys(filters.key))
    if filters.since is not None:
        failures = failures.filter(last_failed_at__gte=filters.since)
    if filters.until is not None:
        failures = failures.filter(last_failed_at__lte=filters.until)
    return _shown(filters, failures)


def _shown(filters: FailureFilter, failures: QuerySet[MessageError]) -> QuerySet[MessageError]:
    """Those of them that are not found by what masking hides."""
    if filters.key:
        failures = shown_by_key(failures)
    asked = ((filters.origin_topic, TOPIC_HEADERS), (filters.cause_class, CAUSE_HEADERS))
    # What no header told cannot be hidden.
    told = [name for text, names in asked if text not in {"", WITHOUT} for name in names]
    return shown_by_told(failures, told)


def _queues(filters: FailureFilter, scope: Scope) -> Q:
    """The queues meant, by their numbers: a join would keep the index of times from being used."""
    # Rejects of a run are found by the index of positions, which begins with the queue.
    is_any = not filters.queue and not filters.system and not filters.run
    if scope.is_whole and is_any:
        return Q()
    queues = Queue.objects.filter(scope.within("system"))
    if filters.queue:
        queues = queues.filter(name=filters.queue)
    if filters.system == WITHOUT:
        queues = queues.filter(system=None)
    elif filters.system:
        queues = queues.filter(system__name=filters.system)
    return Q(queue__in=list(queues.values_list("pk", flat=True)))


def _keys(text: str) -> list[bytes]:
    """The record key as a page shows it: text, or the bytes written in hexadecimal."""
    keys = [text.encode()]
    if text.startswith("0x"):
        try:
            keys.append(bytes.fromhex(text[2:]))
        except ValueError:
            return keys
    return keys


def from_cursor(failures: QuerySet[MessageError], cursor: Cursor | None) -> QuerySet[MessageError]:
    """Order as the list does from the cursor on; backwards from a cursor that says so."""
    if cursor is None:
        return failures.order_by("-last_failed_at", "id")
    # The first condition lets the index on (last_failed_at, id) find the place.
    if cursor.backwards:
        newer = Q(last_failed_at__gt=cursor.at) | Q(id__lt=cursor.row)
        at = failures.filter(newer, last_failed_at__gte=cursor.at)
        return at.order_by("last_failed_at", "-id")
    older = Q(last_failed_at__lt=cursor.at) | Q(id__gt=cursor.row)
    return failures.filter(older, last_failed_at__lte=cursor.at).order_by("-last_failed_at", "id")


def _at(row: FailureRow | None, *, backwards: bool = False) -> Cursor | None:
    """The place after or before a line."""
    return None if row is None else Cursor(row.last_failed_at, row.id, backwards)
