"""Reading tracked messages: by their search index, by time, or by an unusual ending."""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from django.db import transaction
from django.utils import timezone

from integration.models import MessageTrack, Queue
from integration.policy.states import Ended
from integration.selectors.scope import Scope
from integration.selectors.tracking import batches
from integration.selectors.tracking.batches import Span
from integration.store.sessions import alias, django_connection
from integration.values import moment_of

COLUMNS: Final = (
    't.id, t.at, t.queue_id, t.partition, t."offset", t.message_id, t.interface, t.ended, '
    "t.key, t.kafka_ms, t.external_id, t.search_a, t.search_b, t.caused_by, t.payload IS NOT NULL, "
    "t.schema_id, t.trace_id"
)
# So many rows of one id are read at once. What has more of them is found soon by its time.
MANY: Final = 1_000
# The search index is read once for each.
FEW_IDS: Final = 20
# All rows, each with the number of them; of too many the number alone leaves the database.
FEW: Final = f"""
WITH met AS MATERIALIZED ({{met}}), counted AS (SELECT count(*) AS number FROM met)
SELECT met.*, counted.number FROM counted LEFT JOIN met ON counted.number <= {MANY}
"""
FOREVER: Final = datetime(9999, 1, 1, tzinfo=UTC)
# The database's clock and this one differ by less.
APART: Final = timedelta(days=1)
# More tries than any retry policy makes.
ENDINGS_OF_ONE: Final = 1_000
# A plan for any window would look at every day.
AS_ASKED: Final = {"plan_cache_mode": "force_custom_plan"}
# The planner knows no better than to read whole days for a column that is mostly empty.
INDEX_ONLY: Final = AS_ASKED | {
    "enable_seqscan": "off",
    "enable_indexscan": "off",
    "max_parallel_workers_per_gather": "0",
}
# Nor that a few batches are little, as long as a day's figures are of its morning.
NEVER_WHOLE: Final = AS_ASKED | {
    "enable_seqscan": "off",
    "max_parallel_workers_per_gather": "0",
}
ALL: Final = "true"

Queues = Mapping[int, tuple[str, str]]
"""Name and direction by number."""
Values = Mapping[str, Any]


class Cursor(NamedTuple):
    """A place among all tracks, in their order; a page begins behind it."""

    at: datetime
    id: int

    @staticmethod
    def read(text: str) -> "Cursor | None":
        """The inverse of str(); None for what is no place."""
        at, _, number = text.partition("~")
        try:
            when = datetime.fromisoformat(at)
        except ValueError:
            return None
        if when.tzinfo is None or when > FOREVER or not (number.isdecimal() and len(number) < 19):
            return None
        return Cursor(when, int(number))

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRow:
    """One ending of one try. `written_at` is Kafka's time of the record.

    Its payload is not read with it: `keeps_payload` says whether there is one.
    """

    id: int
    at: datetime
    queue_id: int
    queue: str
    direction: str
    partition: int
    offset: int
    message_id: str
    interface: str
    ended: str
    key: str
    written_at: datetime | None
    external_id: str
    search_a: str
    search_b: str
    caused_by: str
    keeps_payload: bool
    schema_id: int | None = None
    trace_id: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """What the message is found by beside its own id."""
        return tuple(filter(None, (self.external_id, self.search_a, self.search_b)))

    @property
    def took(self) -> timedelta | None:
        """The time from Kafka's of the record to this ending; None where it is not known."""
        if self.written_at is None or self.written_at > self.at:
            return None
        return self.at - self.written_at

    @property
    def place(self) -> Cursor:
        return Cursor(self.at, self.id)


def queues_of(scope: Scope) -> Queues:
    """Every queue that this person may know of."""
    rows = Queue.objects.filter(scope.within("system"))
    return {pk: (name, way) for pk, name, way in rows.values_list("pk", "name", "direction")}


def latest() -> datetime:
    """A moment that no row is beyond: to plan for the days made ahead takes longer than to look."""
    return timezone.now() + APART


def by_index(
    conditions: Sequence[str], values: Values, queues: Queues, *, limit: int = MANY
) -> list[TrackRow]:
    """The rows that meet one of the conditions, at most so many of each, by time and number.

    Each names a column of the search index; the cost is the index's, whatever the days hold.
    """
    sql = " UNION ALL ".join(f"({_meeting(one, limit)})" for one in conditions)
    with reading(INDEX_ONLY) as cursor:
        return _each_once([read(cursor, sql, values, queues)])


def few_by_index(
    conditions: Sequence[str], values: Values, queues: Queues
) -> list[TrackRow] | None:
    """The same; None as soon as more than MANY meet one of the conditions."""
    gathered: list[list[TrackRow]] = []
    with reading(INDEX_ONLY) as cursor:
        for condition in conditions:
            cursor.execute(FEW.format(met=_meeting(condition, MANY + 1)), values)
            matches = cursor.fetchall()
            if matches[0][-1] > MANY:
                return None
            gathered.append(_rows(matches, queues))
    return _each_once(gathered)


def _each_once(lists: Iterable[Iterable[TrackRow]]) -> list[TrackRow]:
    every = {row.id: row for rows in lists for row in rows}
    return sorted(every.values(), key=lambda row: row.place)


def _meeting(condition: str, limit: int) -> str:
    return f"SELECT {COLUMNS} FROM integration_messagetrack t WHERE {condition} LIMIT {limit}"


def of_messages(
    ids: Sequence[str],
    queue: int,
    since: datetime,
    endings: Iterable[str] = tuple(Ended),
    *,
    until: datetime = FOREVER,
) -> list[TrackRow]:
    """These endings of these messages of one queue in that time, by time; without its name."""
    values: dict[str, Any] = {"ids": list(ids), "queue": queue, "since": since, "until": until}
    values["endings"], queues = list(endings), {queue: ("", "")}
    condition = "t.message_id = ANY(%(ids)s) AND t.ended = ANY(%(endings)s)"
    limit = ENDINGS_OF_ONE * len(ids)
    if len(ids) > FEW_IDS:
        span = Span([queue], since, until, newest_first=False)
        return in_order(span, condition, values, queues, limit=limit)
    condition += " AND t.queue_id = %(queue)s AND t.at >= %(since)s AND t.at < %(until)s"
    return by_index([condition], values, queues, limit=limit)


class KeptPayload(NamedTuple):
    """A payload, and the track that keeps it: its queue and service say how it is shown."""

    track: TrackRow
    payload: bytes


def newest_payload(tracks: Sequence[TrackRow]) -> KeptPayload | None:
    """The payload that these tracks of one message kept last; None where none is kept."""
    keeping = [track for track in tracks if track.keeps_payload]
    if not keeping:
        return None
    tracks_kept = MessageTrack.objects.using(alias()).filter(
        message_id=keeping[0].message_id,
        at__in=[track.at for track in keeping],
        pk__in=[track.id for track in keeping],
    )
    with reading(INDEX_ONLY):
        found = tracks_kept.order_by("-at", "-pk").values_list("pk", "payload").first()
    if found is None or found[1] is None:
        return None
    track = next(track for track in keeping if track.id == found[0])
    return KeptPayload(track, zlib.decompress(bytes(found[1])))


def in_order(
    span: Span, condition: str, values: Values, queues: Queues, *, limit: int
) -> list[TrackRow]:
    """The first rows of the span that meet the condition, by time and number in its order."""
    way = "DESC" if span.newest_first else "ASC"
    rows: list[TrackRow] = []
    with reading(NEVER_WHOLE) as cursor:
        walk = batches.Walk(cursor, span, limit)
        for part in walk.parts():
            sql = (
                f"SELECT * FROM ({part.rows(COLUMNS, condition)}) t "
                f"ORDER BY t.at {way}, t.id {way} LIMIT {limit - len(rows)}"
            )
            rows += read(cursor, sql, {**values, **part.values}, queues)
            walk.met = len(rows)
            if len(rows) >= limit:
                break
    return rows


def count(span: Span, condition: str, values: Values, *, cap: int) -> int:
    """Count the span's rows that meet the condition: above `cap` it is any number above it."""
    number = 0
    with reading(NEVER_WHOLE) as cursor:
        if condition == ALL:
            return batches.counted(cursor, span, cap)
        walk = batches.Walk(cursor, span, cap + 1)
        for part in walk.parts():
            cursor.execute(
                f"SELECT count(*) FROM ({part.rows('1', condition)} LIMIT {cap + 1}) counted",
                {**values, **part.values},
            )
            number += int(cursor.fetchone()[0])
            walk.met = number
            if number > cap:
                break
    return number


def newest_unusual(condition: str, values: Values, queues: Queues, *, limit: int) -> list[TrackRow]:
    """The newest rows that meet the condition, which names an unusual ending: they have a list."""
    sql = (
        f"SELECT {COLUMNS} FROM integration_messagetrack t WHERE {condition} "
        f"ORDER BY t.at DESC, t.id DESC LIMIT {limit}"
    )
    with reading(AS_ASKED) as cursor:
        return read(cursor, sql, values, queues)


def count_unusual(condition: str, values: Values, *, cap: int) -> int:
    """Count the rows that meet such a condition, at most cap + 1."""
    with reading(AS_ASKED) as cursor:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM integration_messagetrack t "
            f"WHERE {condition} LIMIT {cap + 1}) counted",
            values,
        )
        return int(cursor.fetchone()[0])


@contextmanager
def reading(settings: Mapping[str, str]) -> Iterator[Any]:
    """A cursor under these settings; what is rolled back is nothing but them."""
    set_all = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    values = [text for setting in settings.items() for text in setting]
    with transaction.atomic(using=alias()):
        with django_connection().cursor() as cursor:
            cursor.execute(f"SELECT {set_all}", values)
            yield cursor
        transaction.set_rollback(True, using=alias())


def read(cursor: Any, sql: str, values: Values, queues: Queues) -> list[TrackRow]:
    cursor.execute(sql, values)
    return _rows(cursor.fetchall(), queues)


def _rows(fetched: Iterable[tuple[Any, ...]], queues: Queues) -> list[TrackRow]:
    """Rows of queues that are not among these, and that of nothing found, are left out.

    A search has the number of all rows behind the columns of each.
    """
    return [_row(values, queues) for values in fetched if values[2] in queues]


def _row(values: tuple[Any, ...], queues: Queues) -> TrackRow:
    id_, at, queue_id, partition, offset, message_id, interface, ended, key, ms, *rest = values
    external_id, search_a, search_b, caused_by, keeps_payload, schema_id, trace, *_number = rest
    name, direction = queues[queue_id]
    return TrackRow(
        id=id_,
        at=at,
        queue_id=queue_id,
        queue=name,
        direction=direction,
        partition=partition,
        offset=offset,
        message_id=message_id,
        interface=interface,
        ended=ended,
        key=key or "",
        written_at=moment_of(ms) if ms and ms > 0 else None,
        external_id=external_id or "",
        search_a=search_a or "",
        search_b=search_b or "",
        caused_by=caused_by or "",
        keeps_payload=keeps_payload,
        schema_id=schema_id,
        trace_id="" if trace is None else trace.hex,
    )
