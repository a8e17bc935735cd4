"""Tracked messages by what people know of them, newest first, within a window of time.

The window prunes the days. Within them an id, a key or a service goes by the search index, an
unusual ending by the list of those, and anything else by the batches of its queues.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from integration.models import Queue
from integration.policy.states import Ended
from integration.selectors.paging import PAGE_ROWS, Page
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.tracking import rows
from integration.selectors.tracking.batches import MICROSECOND, Span
from integration.selectors.tracking.masked import searched
from integration.selectors.tracking.rows import Cursor, Queues, TrackRow
from integration.tracing.context import is_trace_id

COUNT_CAP: Final = rows.MANY
WINDOW: Final = timedelta(hours=24)
# First what many messages share, a site or a kind of order: it decides how all are looked for.
IDS: Final = ("search_a", "search_b", "external_id", "message_id")
_WITHIN: Final = "t.at >= %(since)s AND t.at < %(until)s AND t.queue_id = ANY(%(queues)s)"
_ENDED: Final = "t.ended = %(ended)s"
# These few have an index of their own: `track_unusual`.
UNUSUAL: Final = frozenset(Ended) - {Ended.APPLIED, Ended.DELIVERED}
BEHIND: Final = "t.at <= %(at)s AND (t.at < %(at)s OR t.id < %(row)s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackFilter:
    """The filter of a list. `id` is any of a message's ids, or its trace's; texts match exactly.

    Without `sees_contents` only message ids and traces are looked for: other ids and keys are of
    payloads.
    """

    since: datetime
    until: datetime
    id: str = ""
    key: str = ""
    system: str = ""
    queue: str = ""
    interface: str = ""
    ended: str = ""
    direction: str = ""
    scope: Scope = EVERYTHING
    sees_contents: bool = True


TrackPage = Page[TrackRow, Cursor]


def page(filters: TrackFilter, after: Cursor | None = None, size: int = PAGE_ROWS) -> TrackPage:
    """The rows behind the cursor, newest first, and how many there are in all, capped."""
    queues = _queues(filters)
    if not queues:
        return Page(rows=(), count=0, cap=COUNT_CAP)
    values = _values(filters, queues)
    of_masks = _of_masks(filters, queues)
    values |= {f"masked_{column}": names for column, names in of_masks.items()}
    if after is not None:
        values |= {"at": after.at, "row": after.id}
    exact = _exact(filters, of_masks)
    if exact:
        tracks, number = _by_index(filters, exact, values, queues, size)
    elif filters.ended in UNUSUAL:
        condition = f"{_WITHIN} AND {_ENDED}"
        tracks = rows.newest_unusual(_behind(condition, values), values, queues, limit=size + 1)
        number = rows.count_unusual(condition, values, cap=COUNT_CAP)
    else:
        condition = _ENDED if filters.ended else rows.ALL
        tracks = _by_time(filters, condition, values, queues, size)
        number = rows.count(_span(filters, queues), condition, values, cap=COUNT_CAP)
    shown = tuple(tracks[:size])
    behind = shown[-1].place if len(tracks) > size else None
    return Page(rows=shown, count=number, cap=COUNT_CAP, next_after=behind)


def _by_time(
    filters: TrackFilter, condition: str, values: dict[str, Any], queues: Queues, size: int
) -> list[TrackRow]:
    span = _span(filters, queues)
    if "at" in values and values["at"] < span.end:
        span = replace(span, end=values["at"] + MICROSECOND)
    return rows.in_order(span, _behind(condition, values), values, queues, limit=size + 1)


def _by_index(
    filters: TrackFilter, exact: list[str], values: dict[str, Any], queues: Queues, size: int
) -> tuple[list[TrackRow], int]:
    """Find what the conditions do by the index; where one finds too much, go by time."""
    ending = f" AND {_ENDED}" if filters.ended else ""
    tracks = rows.few_by_index([f"{_WITHIN}{ending} AND {test}" for test in exact], values, queues)
    if tracks is None:
        condition = f"({' OR '.join(exact)}){ending}"
        return _by_time(filters, condition, values, queues, size), COUNT_CAP + 1
    behind = [
        row for row in tracks if "at" not in values or row.place < (values["at"], values["row"])
    ]
    return behind[::-1][: size + 1], len(tracks)


def _behind(condition: str, values: dict[str, Any]) -> str:
    return f"{condition} AND {BEHIND}" if "at" in values else condition


def _queues(filters: TrackFilter) -> Queues:
    narrowed = Q()
    if filters.queue:
        narrowed &= Q(name=filters.queue)
    if filters.system:
        narrowed &= Q(system__name=filters.system)
    if filters.direction:
        narrowed &= Q(direction=filters.direction)
    queues = Queue.objects.filter(filters.scope.within("system")).filter(narrowed)
    return {pk: (name, way) for pk, name, way in queues.values_list("pk", "name", "direction")}


def _values(filters: TrackFilter, queues: Queues) -> dict[str, Any]:
    """The values that conditions name."""
    return {
        "since": filters.since,
        "until": filters.until,
        "any": filters.id,
        "key": filters.key,
        "interface": filters.interface,
        "ended": filters.ended,
        "queues": list(queues),
    }


def _span(filters: TrackFilter, queues: Queues) -> Span:
    return Span(list(queues), filters.since, filters.until)


def _of_masks(filters: TrackFilter, queues: Queues) -> dict[str, list[Any]]:
    """What masks leave to be searched: by column services, but queues whose keys are masked."""
    if not filters.sees_contents or not (filters.key or filters.id):
        return {}
    places = Queue.objects.filter(pk__in=list(queues)).values_list("pk", "system")
    keyless, columns = searched(places)
    found: dict[str, list[Any]] = dict(columns)
    return found | {"key": keyless} if keyless else found


def _exact(filters: TrackFilter, of_masks: Mapping[str, list[Any]]) -> list[str]:
    """The conditions for the search index: one of them must hold; none where nothing is named."""
    fixed = []
    if filters.key:
        fixed.append("t.key = %(key)s")
        if "key" in of_masks:
            fixed.append("NOT t.queue_id = ANY(%(masked_key)s)")
    if filters.interface:
        fixed.append("t.interface = %(interface)s")
    if not filters.id:
        return [" AND ".join(fixed)] if fixed else []
    columns = IDS if filters.sees_contents else IDS[-1:]
    tests = [
        " AND ".join([f"t.{column} = %(any)s", *_not_hidden(column, of_masks)])
        for column in columns
    ]
    if is_trace_id(filters.id):
        tests.append("t.trace_id = %(any)s::uuid")
    return [" AND ".join([*fixed, test]) for test in tests]


def _not_hidden(column: str, of_masks: Mapping[str, list[Any]]) -> list[str]:
    """An id that is masked is not found: an answer would tell that it is there."""
    return [f"t.interface = ANY(%(masked_{column})s)"] if column in of_masks else []
