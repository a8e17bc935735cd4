"""The database's knowledge of a stretch of offsets of one partition, read at one moment.

Four things tell: the position, the log of batches (which ranges were passed, in the commit that
moved the position), the failures, and tracking, which may be off, or gone with its day.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import psycopg

from integration.track_parts import LIST, parts_of
from spark_jobs.errors import gone, other_topic

# A batch's tracks are written right before its commit. What is nearer to the end of what tracking
# still holds may have lost some of its rows with their day.
MARGIN: Final = timedelta(hours=1)
# Batches whose numbers lie further apart than this are looked up apart: between them are those of
# other queues, and of the time between two readings.
NEAR: Final = 1_000
_BATCHES: Final = """
SELECT from_offset, to_offset, number, committed_at, ended_at FROM integration_batchlog
WHERE partition_id = %s AND topic_uuid = %s AND to_offset >= %s AND from_offset <= %s
ORDER BY from_offset, number
"""
_QUEUE: Final = "SELECT direction, start_from, is_error_queue FROM integration_queue WHERE id = %s"
_PLACE: Final = """
SELECT id, topic_uuid, next_offset, low_watermark IS NOT NULL,
  CASE WHEN next_offset < open_until THEN done_offsets ELSE '{}' END
FROM integration_queuepartition WHERE queue_id = %s AND partition = %s
"""
_FIRST: Final = """
SELECT from_offset FROM integration_batchlog WHERE partition_id = %s AND topic_uuid = %s
ORDER BY to_offset LIMIT 1
"""
_GAPS: Final = """
SELECT from_offset, to_offset FROM integration_gap
WHERE partition_id = %s AND topic_uuid = %s AND to_offset > %s AND from_offset <= %s
"""
_FAILURES: Final = """
SELECT e."offset", e.state, e.ended, e.code, e.id::text, EXISTS (
  SELECT 1 FROM integration_errorchange c WHERE c.error_id = e.id AND c.action = 'replay')
FROM integration_messageerror e
WHERE e.queue_id = %s AND e.topic_uuid = %s AND e.partition = %s AND e."offset" BETWEEN %s AND %s
"""
# By the summaries of arrival numbers; the time leaves out the days that cannot have them.
_TRACKS: Final = """
SELECT "offset", arrival_batch, ended FROM integration_messagetrack
WHERE queue_id = %s AND partition = %s AND arrival_batch BETWEEN %s AND %s
  AND at BETWEEN %s AND %s
"""
_OLDEST: Final = "SELECT date_trunc('day', min(at), 'UTC') FROM integration_messagetrack"


class Batch(NamedTuple):
    """A range of offsets that was passed in one commit, both ends included; or in several.

    Then `ended_at` is when the last one was so far.
    """

    first: int
    last: int
    number: int
    committed_at: datetime
    ended_at: datetime | None = None


class Failed(NamedTuple):
    """The failure of an offset. `was_replayed` says that somebody had it replayed since."""

    state: str
    ended: str
    code: str
    id: str
    was_replayed: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """The queue as a whole. Tracking of before `tracked_since` is not kept; None: all of it is."""

    queue: int
    uuid: str
    began_at_beginning: bool
    is_error_queue: bool
    tracked_since: datetime | None


@dataclass(slots=True, kw_only=True)
class Known:
    """The knowledge of the offsets of one stretch.

    `next_offset` is None where the queue has not met the partition yet, `done` is what is through
    beyond it. `first` is the lowest offset that the log of batches still knows; the log is `whole`
    when the cleanup can only have taken ranges that Kafka had dropped. `endings` are of tries of
    the batches here, by offset.
    """

    next_offset: int | None = None
    done: frozenset[int] = frozenset()
    first: int | None = None
    whole: bool = False
    began_at_beginning: bool = False
    is_error_queue: bool = False
    batches: Sequence[Batch] = ()
    failures: Mapping[int, Failed] = field(default_factory=dict)
    endings: Mapping[int, Sequence[str]] = field(default_factory=dict)
    tracked: frozenset[int] = frozenset()
    gaps: Sequence[tuple[int, int]] = ()

    def is_to_come(self, offset: int) -> bool:
        """Return whether the queue has not come to it yet."""
        if self.next_offset is None:
            return True
        return offset >= self.next_offset and offset not in self.done


def begin(session: psycopg.Connection[Any], queue: int, uuid: str) -> Reading:
    """Look at the queue, once for a run. Raises JobError UNKNOWN_QUEUE."""
    row = session.execute(_QUEUE, [queue]).fetchone()
    if row is None or row[0] != "inbound":
        raise gone("UNKNOWN_QUEUE", f"inbound queue {queue}")
    return Reading(queue, uuid, row[1] == "beginning", row[2], _tracked_since(session))


def known(
    session: psycopg.Connection[Any], reading: Reading, partition: int, ends: tuple[int, int]
) -> Known:
    """Read what is known of the offsets between these ends, both included.

    All of it is of one moment: while a queue goes on, the log would else be newer than the
    position. Raises JobError OTHER_TOPIC.
    """
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    try:
        return _known(session, reading, partition, ends)
    finally:
        session.execute("ROLLBACK")


def _known(
    session: psycopg.Connection[Any], reading: Reading, partition: int, ends: tuple[int, int]
) -> Known:
    place = session.execute(_PLACE, [reading.queue, partition]).fetchone()
    if place is None:
        return Known()
    id_, uuid, next_offset, whole, done = place
    if uuid != reading.uuid:
        raise other_topic()
    first = session.execute(_FIRST, [id_, uuid]).fetchone()
    batches = [Batch(*row) for row in session.execute(_BATCHES, [id_, uuid, *ends])]
    endings, tracked = _endings(session, (reading.queue, partition), batches, ends)
    failures = session.execute(_FAILURES, [reading.queue, uuid, partition, *ends])
    since = reading.tracked_since
    return Known(
        next_offset=next_offset,
        done=frozenset(done),
        first=None if first is None else first[0],
        whole=whole,
        began_at_beginning=reading.began_at_beginning,
        is_error_queue=reading.is_error_queue,
        batches=batches,
        failures={offset: Failed(*rest) for offset, *rest in failures},
        endings=endings,
        tracked=frozenset(
            batch.number
            for batch in batches
            if batch.number in tracked and (since is None or batch.committed_at - MARGIN >= since)
        ),
        gaps=session.execute(_GAPS, [id_, uuid, *ends]).fetchall(),
    )


def _endings(
    session: psycopg.Connection[Any],
    place: tuple[int, int],
    batches: Sequence[Batch],
    ends: tuple[int, int],
) -> tuple[dict[int, list[str]], set[int]]:
    """Read what tries of these batches ended in, by offset, and the batches that were tracked.

    A row of another batch tells of a try from the error table, or of a topic of earlier days:
    tracking does not know which.
    """
    endings: dict[int, list[str]] = {}
    tracked: set[int] = set()
    by_number = {batch.number: batch for batch in batches}
    for part in _stretches(batches):
        numbers = (part[0].number, part[-1].number)
        first = min(batch.committed_at for batch in part)
        last = max(batch.ended_at or batch.committed_at for batch in part)
        parameters = [*place, *numbers, first - MARGIN, last + MARGIN]
        with session.cursor(binary=True) as cursor:
            for offset, number, ended in cursor.execute(_TRACKS, parameters):
                batch = by_number.get(number)
                if batch is None or not batch.first <= offset <= batch.last:
                    continue
                tracked.add(number)
                if ends[0] <= offset <= ends[1]:
                    endings.setdefault(offset, []).append(ended)
    return endings, tracked


def _stretches(batches: Sequence[Batch]) -> Iterator[list[Batch]]:
    """The batches in the order of their numbers, parted where these lie far apart."""
    part: list[Batch] = []
    for batch in sorted(batches, key=lambda one: one.number):
        if part and batch.number - part[-1].number > NEAR:
            yield part
            part = []
        part.append(batch)
    if part:
        yield part


def _tracked_since(session: psycopg.Connection[Any]) -> datetime | None:
    """The beginning of what tracking still holds; it goes by whole days, the oldest first."""
    session.execute("SET TimeZone = 'UTC'")
    days = [part.begin for part in parts_of(session.execute(LIST).fetchall())]
    begins = [begin for begin in days if begin is not None]
    if days:
        return min(begins) if len(begins) == len(days) else None
    oldest = session.execute(_OLDEST).fetchone()
    since: datetime | None = None if oldest is None else oldest[0]
    return since
