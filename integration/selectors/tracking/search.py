"""Tracked messages by what people know of them, newest first, within a window of time.

The window prunes the days. Within them an id, a key or a service goes by the search index, and
anything else by time, by queue and time, or by what the try ended in.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Q

from integration.models import Queue
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.tracking import rows
from integration.selectors.tracking.rows import Cursor, Queues, TrackRow

PAGE_ROWS: Final = 50
COUNT_CAP: Final = rows.MANY
WINDOW: Final = timedelta(hours=24)
IDS: Final = ("message_id", "external_id", "search_a", "search_b")
BEHIND: Final = "t.at <= %(at)s AND (t.at < %(at)s OR t.id < %(row)s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackFilter:
    """What a list shows. `id` is any of a message's ids; every text must match exactly.

    Without `sees_contents` only message ids are looked for: the other ids and the key come from
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


@dataclass(frozen=True, slots=True)
class TrackPage:
    """One page, newest first; `next_after` is None at the end."""

    rows: tuple[TrackRow, ...]
    count: int
    next_after: Cursor | None

    @property
    def is_capped(self) -> bool:
        return self.count > COUNT_CAP

    @property
    def shown_count(self) -> int:
        return min(self.count, COUNT_CAP)


def page(wanted: TrackFilter, after: Cursor | None = None, size: int = PAGE_ROWS) -> TrackPage:
    """The rows behind the cursor, and how many there are in all, capped."""
    queues = _queues(wanted)
    if not queues:
        return TrackPage((), 0, None)
    condition, said = _condition(wanted, queues)
    if after is not None:
        said |= {"at": after.at, "row": after.id}
    exact = _exact(wanted)
    if exact:
        found, number = _by_index([f"{condition} AND {one}" for one in exact], said, queues, size)
    else:
        found = rows.newest(_behind(condition, said), said, queues, limit=size + 1)
        number = rows.count(condition, said, cap=COUNT_CAP)
    shown = tuple(found[:size])
    return TrackPage(shown, number, shown[-1].cursor if len(found) > size else None)


def _by_index(
    conditions: list[str], said: dict[str, Any], queues: Queues, size: int
) -> tuple[list[TrackRow], int]:
    """What each condition finds by the index; what it finds too often is found by its time."""
    every: dict[int, TrackRow] = {}
    number = 0
    gathered = rows.by_index(conditions, said, queues)
    for condition, found in zip(conditions, gathered, strict=True):
        if len(found) > rows.MANY:
            number = COUNT_CAP + 1
            found = rows.newest(_behind(condition, said), said, queues, limit=size + 1)  # noqa: PLW2901 - instead of it
        every |= {row.id: row for row in found}
    number = max(number, len(every))
    if "at" in said:
        place = (said["at"], said["row"])
        every = {id_: row for id_, row in every.items() if row.place < place}
    in_order = sorted(every.values(), key=lambda row: row.place, reverse=True)
    return in_order[: size + 1], number


def _behind(condition: str, said: dict[str, Any]) -> str:
    return f"{condition} AND {BEHIND}" if "at" in said else condition


def _queues(wanted: TrackFilter) -> Queues:
    narrowed = Q()
    if wanted.queue:
        narrowed &= Q(name=wanted.queue)
    if wanted.system:
        narrowed &= Q(system__name=wanted.system)
    if wanted.direction:
        narrowed &= Q(direction=wanted.direction)
    found = Queue.objects.filter(wanted.scope.within("system")).filter(narrowed)
    return {pk: (name, way) for pk, name, way in found.values_list("pk", "name", "direction")}


def _condition(wanted: TrackFilter, queues: Queues) -> tuple[str, dict[str, Any]]:
    """Everything but what the search index knows, and what every condition is told."""
    said: dict[str, Any] = {
        "since": wanted.since,
        "until": wanted.until,
        "any": wanted.id,
        "key": wanted.key,
        "interface": wanted.interface,
        "ended": wanted.ended,
        "queues": list(queues),
    }
    # What goes by the search index is not to be looked for among all of a queue.
    column = rows.QUEUE if _exact(wanted) else "t.queue_id"
    conditions = ["t.at >= %(since)s AND t.at < %(until)s"]
    if len(queues) == 1:
        (said["queue"],) = queues
        conditions.append(f"{column} = %(queue)s")
    elif wanted.system or wanted.direction or not wanted.scope.is_whole:
        conditions.append(f"{column} = ANY(%(queues)s)")
    if wanted.ended:
        conditions.append("t.ended = %(ended)s")
    return " AND ".join(conditions), said


def _exact(wanted: TrackFilter) -> list[str]:
    """The conditions for the search index: one of them must hold; none where nothing is named."""
    fixed = []
    if wanted.key:
        fixed.append("t.key = %(key)s")
    if wanted.interface:
        fixed.append("t.interface = %(interface)s")
    if not wanted.id:
        return [" AND ".join(fixed)] if fixed else []
    columns = IDS if wanted.sees_contents else IDS[:1]
    return [" AND ".join([*fixed, f"t.{column} = %(any)s"]) for column in columns]
