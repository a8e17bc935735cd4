"""Reading tracked messages: by their search index, or newest first by time."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction

from integration.models import Queue
from integration.selectors.scope import Scope
from integration.store.sessions import alias, django_connection

COLUMNS: Final = (
    't.id, t.at, t.queue_id, t.partition, t."offset", t.message_id, t.interface, t.ended, '
    "t.key, t.kafka_ms, t.external_id, t.search_a, t.search_b, t.caused_by"
)
# A queue as a condition that no index but the search index can take the place of.
QUEUE: Final = "t.queue_id + 0"
# So many rows of one id are read at once. What has more of them is found soon by its time.
MANY: Final = 1_000
# A plan for any window would look at every day.
_AS_ASKED: Final = "SELECT set_config('plan_cache_mode', 'force_custom_plan', true)"
# The planner knows no better than to read whole days for a column that is mostly empty.
_INDEX_ONLY: Final = (
    "SELECT set_config('enable_seqscan', 'off', true), set_config('enable_indexscan', 'off', true)"
    ", set_config('max_parallel_workers_per_gather', '0', true)"
)

Queues = Mapping[int, tuple[str, str]]
"""Name and direction by number."""
Said = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: behind this row."""

    at: datetime
    id: int

    @staticmethod
    def read(text: str) -> "Cursor | None":
        """The inverse of str(); None for what is no place."""
        at, _, number = text.partition("~")
        try:
            found = datetime.fromisoformat(at)
        except ValueError:
            return None
        if found.tzinfo is None or not (number.isdecimal() and len(number) < 19):
            return None
        return Cursor(found, int(number))

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackRow:
    """One ending of one try. `written_at` is Kafka's time of the record."""

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
    ids: tuple[str, ...]
    caused_by: str

    @property
    def took(self) -> timedelta | None:
        """From Kafka's time of the record to this ending; None where it is not known."""
        if self.written_at is None or self.written_at > self.at:
            return None
        return self.at - self.written_at

    @property
    def place(self) -> tuple[datetime, int]:
        """What all tracks are ordered by."""
        return (self.at, self.id)

    @property
    def cursor(self) -> Cursor:
        return Cursor(self.at, self.id)


def queues_of(scope: Scope) -> Queues:
    """Every queue that this person may know of."""
    rows = Queue.objects.filter(scope.within("system"))
    return {pk: (name, way) for pk, name, way in rows.values_list("pk", "name", "direction")}


def by_index(conditions: Sequence[str], said: Said, queues: Queues) -> list[list[TrackRow]]:
    """For each condition its rows, in no order and at most MANY + 1.

    Each names one of the columns of the search index, and a queue as QUEUE only; the cost is that
    of the index, whatever else the days hold.
    """
    sql = [
        f"SELECT {COLUMNS} FROM integration_messagetrack t WHERE {condition} LIMIT {MANY + 1}"  # noqa: S608 - constants
        for condition in conditions
    ]
    with _reading(_AS_ASKED, _INDEX_ONLY) as cursor:
        return [_read(cursor, one, said, queues) for one in sql]


def newest(condition: str, said: Said, queues: Queues, *, limit: int) -> list[TrackRow]:
    """The newest rows that meet the condition, by time and number."""
    sql = (
        f"SELECT {COLUMNS} FROM integration_messagetrack t WHERE {condition} "  # noqa: S608 - constants
        f"ORDER BY t.at DESC, t.id DESC LIMIT {limit}"
    )
    with _reading(_AS_ASKED) as cursor:
        return _read(cursor, sql, said, queues)


def oldest(condition: str, said: Said, queues: Queues, *, limit: int) -> list[TrackRow]:
    sql = (
        f"SELECT {COLUMNS} FROM integration_messagetrack t WHERE {condition} "  # noqa: S608 - constants
        f"ORDER BY t.at, t.id LIMIT {limit}"
    )
    with _reading(_AS_ASKED) as cursor:
        return _read(cursor, sql, said, queues)


def count(condition: str, said: Said, *, cap: int) -> int:
    """How many rows meet the condition, at most cap + 1."""
    with _reading(_AS_ASKED) as cursor:
        cursor.execute(
            f"SELECT count(*) FROM (SELECT 1 FROM integration_messagetrack t "  # noqa: S608 - constants
            f"WHERE {condition} LIMIT {cap + 1}) counted",
            said,
        )
        return int(cursor.fetchone()[0])


@contextmanager
def _reading(*settings: str) -> Iterator[Any]:
    """A cursor under these settings; what is rolled back is nothing but them."""
    with transaction.atomic(using=alias()):
        with django_connection().cursor() as cursor:
            for setting in settings:
                cursor.execute(setting)
            yield cursor
        transaction.set_rollback(True, using=alias())


def _read(cursor: Any, sql: str, said: Said, queues: Queues) -> list[TrackRow]:  # noqa: ANN401 - Django's cursor
    """Rows of queues that are not among these are left out."""
    cursor.execute(sql, said)
    return [_row(values, queues) for values in cursor.fetchall() if values[2] in queues]


def _row(values: tuple[Any, ...], queues: Queues) -> TrackRow:
    id_, at, queue_id, partition, offset, message_id, interface, ended, key, ms, *ids = values
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
        written_at=_moment(ms, at),
        ids=tuple(one for one in ids[:3] if one),
        caused_by=ids[3] or "",
    )


def _moment(ms: int | None, at: datetime) -> datetime | None:
    """Kafka's time as a moment; a producer may have written any number."""
    if not ms or ms < 0:
        return None
    try:
        return datetime.fromtimestamp(ms / 1_000, at.tzinfo)
    except (OverflowError, ValueError, OSError):
        return None
