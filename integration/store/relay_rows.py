"""The SQL of the relay's Outbox port: every statement carries the epoch of its owner."""

import json
from binascii import a2b_base64
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final
from uuid import UUID

import psycopg

from integration.delivery.relay.ports import OutgoingRow, RelayLostError
from integration.policy.relay_shares import Share
from integration.store import deployments, relay_marks, relay_sharing
from integration.store.relay_sharing import BUCKET, Mine
from integration.store.sessions import Session

_decode: Final = json.JSONDecoder().raw_decode

# The shard of a row is always 0; what other shards hold is passed in the index.
MINE: Final = (
    f"provider_id = %(provider)s AND shard = 0 AND {BUCKET} >= %(first)s AND {BUCKET} < %(end)s"
)
# A dead row of a strict queue holds back what follows it on its topic. A queue that forwards has
# rows of two: they are read by others, who see no order between them.
NOT_BLOCKED: Final = (
    "(strict_queue IS NULL OR (strict_queue, provider_id, topic) NOT IN ("
    "SELECT strict_queue, provider_id, topic FROM integration_outboxrow "
    "WHERE state = 'DEAD' AND strict_queue IS NOT NULL))"
)
PENDING_AT_ONCE: Final = f"{MINE} AND state = 'PENDING' AND not_before IS NULL AND {NOT_BLOCKED}"
# The time as a subquery, so that an index on it can be used. Only retry markers have one; strict
# queues never do, so that skipping a locked row changes no order.
PENDING_LATER: Final = f"{MINE} AND state = 'PENDING' AND not_before <= (SELECT clock_timestamp())"
# The order of the index `outbox_due`, which is id order where there is no time. Ordered by id
# alone, a planner with old statistics would walk through everything that was ever published.
INDEX_ORDER: Final = "provider_id, shard, not_before, id"
HAS_DUE: Final = f"""
SELECT (SELECT id FROM integration_outboxrow
    WHERE {PENDING_AT_ONCE} ORDER BY {INDEX_ORDER} LIMIT 1) IS NOT NULL
  OR (SELECT id FROM integration_outboxrow
    WHERE {PENDING_LATER} ORDER BY {INDEX_ORDER} LIMIT 1) IS NOT NULL
"""
# Headers and what else a record is, besides its key and value.
ROW_BYTES: Final = 100
SIZE: Final = f"coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + {ROW_BYTES}"
WANTED: Final = "id, topic, partition, key, value, headers, timestamp_ms"
# The batch that is being marked still lies there as if it was due. As a set of their own the ids
# are hashed whatever the planner thinks of the statement.
NOT_BEING_MARKED: Final = "id NOT IN (SELECT unnest(%(marking)s::bigint[]))"
# Read straight from the index, in its order, until there is enough: nothing of it is sorted. What
# is due by its time comes besides, and both are put in the order of their ids afterwards. Headers
# as text: the driver takes five times as long to hand over JSON, one value at a time.
DUE: Final = f"""
SELECT id, topic, partition, key, value, headers::text, timestamp_ms FROM (
  SELECT {WANTED},
    sum(size) OVER (ORDER BY {INDEX_ORDER} ROWS UNBOUNDED PRECEDING) - size AS before
  FROM (SELECT {WANTED}, provider_id, shard, not_before, {SIZE} AS size
    FROM integration_outboxrow
    WHERE {PENDING_AT_ONCE} AND {NOT_BEING_MARKED}
    ORDER BY {INDEX_ORDER} LIMIT %(rows)s) due) counted
  WHERE before < %(bytes)s
UNION ALL
SELECT id, topic, partition, key, value, headers::text, timestamp_ms FROM (
  SELECT {WANTED} FROM integration_outboxrow
  WHERE {PENDING_LATER} AND {NOT_BEING_MARKED}
  ORDER BY {INDEX_ORDER} LIMIT %(rows)s FOR UPDATE SKIP LOCKED) later
"""
# The same but for the topics that are left out. As long as there are none, nothing is compared.
_BUT_LEFT_OUT: Final = f"{MINE} AND topic <> ALL(%(left_out)s)"
HAS_DUE_BUT_LEFT_OUT: Final = HAS_DUE.replace(MINE, _BUT_LEFT_OUT)
DUE_BUT_LEFT_OUT: Final = DUE.replace(MINE, _BUT_LEFT_OUT)
# Noted with its owner, before anything of it goes to Kafka. The rows stay as they are until they
# are there: a row is as large as its message, and writing it costs as much.
STAMP: Final = """
UPDATE integration_relaylease SET batch = %(batch)s, batch_rows = %(ids)s::bigint[]
WHERE id = %(lease)s AND epoch = %(epoch)s
"""
STAMPED: Final = (
    "SELECT batch, batch_rows FROM integration_relaylease "
    "WHERE id = %(lease)s AND epoch = %(epoch)s AND batch IS NOT NULL"
)
# What the release before stamped, or what was in doubt: such rows carry their batch themselves.
STAMPED_ROWS: Final = (
    f"SELECT batch, array_agg(id ORDER BY id) FROM integration_outboxrow "
    f"WHERE {MINE} AND state = 'STAMPED' GROUP BY batch"
)
# A retry marker that was cancelled on its way is in Kafka nevertheless.
NOT_YET: Final = "id = ANY(%(ids)s::bigint[]) AND state IN ('PENDING', 'STAMPED', 'CANCELLED')"
LET_GO: Final = (
    "own AS (UPDATE integration_relaylease SET batch = NULL, batch_rows = NULL "
    "WHERE id = %(lease)s AND epoch = %(epoch)s AND batch = %(batch)s RETURNING 1)"
)
# The lease remembers the batch as Kafka does: an unknown one is of another state of the database.
MARK: Final = f"""
WITH own AS (
  UPDATE integration_relaylease
  SET watermark = %(batch)s::uuid::text, watermark_before = coalesce(watermark, ''),
    watermark_rows = batch_rows, batch = NULL, batch_rows = NULL
  WHERE id = %(lease)s AND epoch = %(epoch)s AND batch = %(batch)s RETURNING 1)
UPDATE integration_outboxrow
SET state = 'PUBLISHED', batch = %(batch)s, published_at = clock_timestamp()
WHERE {NOT_YET} AND EXISTS (SELECT 1 FROM own)
"""
UNSTAMP: Final = f"""
WITH {LET_GO}, free AS (
  UPDATE integration_outboxrow SET state = 'PENDING', batch = NULL
  WHERE id = ANY(%(ids)s::bigint[]) AND state = 'STAMPED' AND EXISTS (SELECT 1 FROM own))
SELECT 1 FROM own
"""
# A retry marker that cannot be sent: the row of its failure carries the retry from now on.
BURY: Final = f"""
WITH {LET_GO}, dead AS (
  UPDATE integration_outboxrow
  SET state = 'DEAD', batch = %(batch)s, dead_code = %(code)s, dead_text = %(text)s
  WHERE {NOT_YET} AND EXISTS (SELECT 1 FROM own) RETURNING id, kind, error, retry_no),
carried AS (
  UPDATE integration_messageerror m SET carrier = 'row' FROM dead
  WHERE dead.kind = 'TICKET' AND m.id = dead.error AND m.retry_no = dead.retry_no)
SELECT id FROM dead
"""
IN_DOUBT: Final = (
    f"SELECT in_doubt_since IS NOT NULL OR {deployments.holds_relay('l.provider_id')} "
    "FROM integration_relaylease l WHERE id = %(lease)s AND epoch = %(epoch)s"
)
NOTE_TROUBLE: Final = (
    "UPDATE integration_relaylease SET trouble = %(text)s "
    "WHERE id = %(lease)s AND epoch = %(epoch)s"
)
WENT_BACK: Final = "watermark"
# People find the rows by their state, and what they say is written there.
DOUBT: Final = """
WITH own AS (
  UPDATE integration_relaylease SET in_doubt_text = %(text)s, batch = NULL, batch_rows = NULL,
    in_doubt_since = coalesce(in_doubt_since, clock_timestamp())
  WHERE id = %(lease)s AND epoch = %(epoch)s RETURNING 1),
doubtful AS (
  UPDATE integration_outboxrow SET state = 'STAMPED', batch = %(batch)s
  WHERE id = ANY(%(ids)s::bigint[]) AND state IN ('PENDING', 'CANCELLED')
    AND EXISTS (SELECT 1 FROM own))
SELECT 1 FROM own
"""


# Each statement here has an index of its own; a table read as a whole is never the better way. Nor
# is a bitmap, which is never in order: nobody has counted the buckets, and so the planner may take
# a large backlog for a few rows that are sorted quickly.
BY_INDEX: Final = "SET enable_seqscan = off; SET enable_bitmapscan = off"


@dataclass(frozen=True, slots=True)
class Ownership:
    """The ownership that every write of the relay carries, and what it began with."""

    lease: int
    epoch: int
    provider: int
    shard: int
    held: Share


class RelayOutbox:
    """Implements integration.delivery.relay.ports.Outbox over two sessions of the relay's own.

    One reads what is due while the other marks what is sent: the next batch is on its way to
    Kafka before the database is through with the one before.
    """

    def __init__(self, connect: Callable[[], Session], ownership: Ownership) -> None:
        """Raises psycopg.Error."""
        self._work = _opened(connect)
        try:
            self._look = _opened(connect)
        except psycopg.Error:
            self._work.close()
            raise
        self._marker = ThreadPoolExecutor(1, "relay marks")
        self._marking: Future[None] | None = None
        self._being_marked: list[int] = []
        self._ids: list[int] = []
        self._mine: Mine = {
            "lease": ownership.lease,
            "epoch": ownership.epoch,
            "provider": ownership.provider,
        }
        self._hold(ownership.held)

    @property
    def held(self) -> Share:
        return self._held

    def _hold(self, share: Share) -> None:
        """Of these topics the rows are, from the next statement on."""
        self._held = share
        self._mine |= {"first": share.first, "end": share.end}

    def give_up(self, kept: Share) -> None:
        self._hold_as_written(relay_sharing.give_up, kept)

    def take(self, share: Share) -> bool:
        return self._hold_as_written(relay_sharing.take, share)

    def _hold_as_written(self, write: Callable[[Session, Mine, Share], bool], share: Share) -> bool:
        try:
            is_held = write(self._work, self._mine, share)
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e
        if is_held:
            self._hold(share)
        return is_held

    def has_due(self, left_out: Collection[str] = ()) -> bool:
        if left_out:
            return bool(self._one(HAS_DUE_BUT_LEFT_OUT, left_out=list(left_out)))
        return bool(self._one(HAS_DUE))

    def due(
        self, *, rows: int, size_bytes: int, left_out: Collection[str] = ()
    ) -> list[OutgoingRow]:
        candidates = self._candidates(rows, size_bytes, list(left_out))
        candidates.sort(key=itemgetter(0))
        chosen = _within(candidates, rows, size_bytes)
        return [
            OutgoingRow(id_, topic, partition, key, value, _headers(headers), timestamp_ms)
            for id_, topic, partition, key, value, headers, timestamp_ms in chosen
        ]

    def _candidates(self, rows: int, size_bytes: int, left_out: list[str]) -> list[tuple[Any, ...]]:
        """Rows with their values as they are; as text each byte would come as two."""
        marking = _array(self._being_marked)
        values = {**self._mine, "rows": rows, "bytes": size_bytes, "marking": marking}
        statement = DUE_BUT_LEFT_OUT if left_out else DUE
        try:
            with self._look.cursor(binary=True) as cursor:
                return cursor.execute(statement, {**values, "left_out": left_out}).fetchall()
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e

    def stamp(self, batch: UUID, rows: Sequence[OutgoingRow]) -> None:
        self._stamp(batch, [row.id for row in rows])

    def _stamp(self, batch: UUID, ids: list[int]) -> None:
        self._expect(self._run(STAMP, batch=batch, ids=_array(ids)), 1)
        self._ids = ids

    def stamped(self) -> tuple[UUID, int] | None:
        batches = self._run(STAMPED).fetchall()
        if not batches:
            batches = self._run(STAMPED_ROWS).fetchall()
            for batch, ids in batches:
                self._stamp(batch, ids)
        if not batches:
            return None
        batch, self._ids = batches[0]
        return batch, len(self._ids)

    def mark_published(self, batch: UUID, count: int) -> None:
        self._being_marked = self._ids
        self._marking = self._marker.submit(self._mark, batch, count, _array(self._ids))

    def _mark(self, batch: UUID, count: int, ids: str) -> None:
        self._expect(self._run(MARK, batch=batch, ids=ids), count)

    def await_marked(self) -> None:
        if self._marking is not None:
            self._marking.result()
        self._marking, self._being_marked = None, []

    def unstamp(self, batch: UUID, count: int) -> None:
        if count != len(self._ids):
            raise RelayLostError
        self._expect(self._run(UNSTAMP, batch=batch, ids=_array(self._ids)), 1)

    def bury(self, batch: UUID, *, code: str, text: str) -> None:
        values = {"batch": batch, "ids": _array(self._ids), "code": code[:60], "text": text}
        self._expect(self._run(BURY, **values), 1)

    def is_in_doubt(self) -> bool:
        return bool(self._one(IN_DOUBT))

    def watermark(self) -> str | None:
        watermark: str | None = self._one(relay_marks.WATERMARK)
        return watermark

    def watermark_before(self) -> str:
        before: str = self._one(relay_marks.WATERMARK_BEFORE)
        return before

    def cluster(self) -> str:
        cluster: str = self._one(relay_marks.CLUSTER)
        return cluster

    def provider_as_of(self) -> str:
        as_of: str = self._one(relay_marks.PROVIDER_AS_OF)
        return as_of

    def note_cluster(self, name: str, *, as_of: str) -> None:
        self._expect(self._run(relay_marks.NOTE_CLUSTER, name=name, as_of=as_of), 1)

    def topics_at_stake(self) -> set[str]:
        return {topic for (topic,) in self._run(relay_marks.TOPICS_AT_STAKE).fetchall()}

    def last_sent(self) -> tuple[list[OutgoingRow], int]:
        found = self._run(relay_marks.LAST_SENT).fetchall()
        rows = [
            OutgoingRow(id_, topic, partition, key, value, _headers(headers), timestamp_ms)
            for id_, topic, partition, key, value, headers, timestamp_ms, _ in found
        ]
        return rows, min((row[-1] for row in found), default=0)

    def send_again(self, ids: Sequence[int]) -> None:
        self._expect(self._run(relay_marks.SEND_AGAIN, ids=_array(ids)), len(ids))

    def note_watermark(self, text: str) -> None:
        self._expect(self._run(relay_marks.NOTE_WATERMARK, text=text), 1)

    def note_trouble(self, text: str) -> None:
        self._expect(self._run(NOTE_TROUBLE, text=text), 1)

    def went_back(self, text: str) -> None:
        try:
            with self._work.cursor() as cursor:
                deployments.notice(cursor, WENT_BACK, text)
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e

    def doubt(self, batch: UUID, text: str) -> None:
        self._expect(self._run(DOUBT, batch=batch, ids=_array(self._ids), text=text), 1)

    def _one(self, sql: str, **values: object) -> Any:
        row = self._run(sql, **values).fetchone()
        if row is None:
            raise RelayLostError
        return row[0]

    def _run(self, sql: str, **values: object) -> psycopg.Cursor[tuple[Any, ...]]:
        try:
            return self._work.execute(sql, {**self._mine, **values})
        except psycopg.Error as e:
            raise RelayLostError(str(e)) from e

    def close(self) -> None:
        """End both sessions, once what is being marked is marked."""
        self._marker.shutdown()
        self._look.close()
        self._work.close()

    @staticmethod
    def _expect(done: psycopg.Cursor[tuple[Any, ...]], count: int) -> None:
        if done.rowcount != count:
            raise RelayLostError


def _opened(connect: Callable[[], Session]) -> Session:
    session = connect()
    session.execute(BY_INDEX)
    return session


def _array(ids: Sequence[int]) -> str:
    """Write an array like the database does; the driver would look at each number's type."""
    return f"{{{','.join(map(str, ids))}}}"


def _within(rows: list[tuple[Any, ...]], count: int, size_bytes: int) -> list[tuple[Any, ...]]:
    """The first of `rows` that are few and small enough together; at least one."""
    size = 0
    for place, (_, _, _, key, value, *_) in enumerate(rows[:count]):
        if place and size >= size_bytes:
            return rows[:place]
        size += len(value or b"") + len(key or b"") + ROW_BYTES
    return rows[:count]


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    """Decode like codec.decode_headers, from the column's own text."""
    pairs = _decode(text)[0]
    return [(name, None if held is None else a2b_base64(held)) for name, held in pairs]
