"""Rescued records in SQL: copied in bulk, read by a run, swept once the position has passed them.

A range (`Rescue`) is the truth about what can be read; what lies in none is as good as gone, and
is removed by whoever finds it.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction

from integration.codec import decode_headers
from integration.delivery.owned import Owned
from integration.delivery.rescuing import FULL, Piece, RescueStep
from integration.store.heads import IS_HEAD
from integration.store.sessions import alias, django_connection, execute, fetch_all
from integration.values import Headers, Record, TopicFacts

# So much is read at once: as much as the client of Kafka keeps ready.
READ_BYTES: Final = 16 * 2**20
SWEPT_AT_ONCE: Final = 5_000
# A run gives way as long as somebody waits to rescue; who died meanwhile is not waited for.
WANTED_SECONDS: Final = 15
# Over the row `p` of a partition: what of its topic stands rescued from the position on.
RANGES: Final = """(
    SELECT array_agg(ARRAY[r.from_offset, r.to_offset] ORDER BY r.from_offset)
    FROM integration_rescue r WHERE r.partition_id = p.id AND r.topic_uuid = p.topic_uuid
      AND r.to_offset > p.next_offset AND r.to_offset > r.from_offset)"""
_READ: Final = """
SELECT "offset", timestamp_ms, key, value, headers FROM (
  SELECT *, sum(size) OVER (ORDER BY "offset") - size AS before FROM (
    SELECT * FROM integration_rescuedrecord
    WHERE partition_id = %s AND topic_uuid = %s AND "offset" >= %s AND "offset" < %s
    ORDER BY "offset" LIMIT %s) few
) sized WHERE before < %s ORDER BY "offset"
"""
_FIRST_UNTRIED: Final = f"""
SELECT p.next_offset + (q.kind = 'sequential' AND (q.strict_order OR NOT q.is_error_queue)
  AND EXISTS (SELECT 1 FROM integration_messageerror e
    WHERE e.queue_id = p.queue_id AND e.topic_uuid = p.topic_uuid
    AND e.partition = p.partition AND e."offset" = p.next_offset AND {IS_HEAD}))::int
FROM integration_queuepartition p JOIN integration_queue q ON q.id = p.queue_id WHERE p.id = %s
"""
_ROOM: Final = """
SELECT q.rescue_limit_mb * 1048576::bigint - coalesce(sum(r.bytes), 0)::bigint
FROM integration_queue q LEFT JOIN integration_queuepartition p ON p.queue_id = q.id
LEFT JOIN integration_rescue r ON r.partition_id = p.id WHERE q.id = %s GROUP BY q.id
"""
# Whoever ended at the limit begins again once a twentieth of it is free.
_IS_FULL: Final = f"""
SELECT room < q.rescue_limit_mb * 1048576::bigint / 20
FROM ({_ROOM}) now (room), integration_queue q
WHERE q.id = %s AND NOT EXISTS (SELECT 1 FROM integration_queuepartition p
  WHERE p.queue_id = q.id AND p.partition = ANY(%s) AND p.rescue_code <> '{FULL}')
"""
# Rows of earlier ranges that were given up and not swept yet.
_CLEAR: Final = """
DELETE FROM integration_rescuedrecord
WHERE partition_id = %s AND topic_uuid = %s AND "offset" >= %s AND "offset" < %s
"""
_COPY: Final = """
COPY integration_rescuedrecord
  (partition_id, topic_uuid, "offset", timestamp_ms, size, key, value, headers)
FROM STDIN WITH (FORMAT BINARY)
"""
_TYPES: Final = ("int8", "varchar", "int8", "int8", "int4", "bytea", "bytea", "text")
_GROW: Final = """
WITH grown AS (
  UPDATE integration_rescue SET to_offset = %(end)s, records = records + %(records)s,
    bytes = bytes + %(bytes)s, grew_at = clock_timestamp()
  WHERE partition_id = %(id)s AND topic_uuid = %(uuid)s AND to_offset = %(first)s RETURNING 1
)
INSERT INTO integration_rescue (partition_id, topic_uuid, from_offset, to_offset, swept_to,
  records, bytes, reason, began_at, grew_at)
SELECT %(id)s, %(uuid)s, %(first)s, %(end)s, %(first)s, %(records)s, %(bytes)s, %(reason)s,
  clock_timestamp(), clock_timestamp() WHERE NOT EXISTS (SELECT 1 FROM grown)
"""
_FENCE: Final = """
UPDATE integration_queuepartition SET rescued_to = greatest(rescued_to, %s),
  rescued_at = clock_timestamp()
WHERE id = %s AND epoch = %s AND next_offset = %s AND topic_uuid = %s
"""
_NOTE: Final = """
UPDATE integration_queuepartition SET rescue_code = %s, rescue_text = %s
WHERE id = %s AND epoch = %s AND (rescue_code <> %s OR rescue_text <> %s)
"""
# With the row locked, so that nobody goes back into what is being given up.
_SHRINK: Final = """
WITH place AS MATERIALIZED (
  SELECT p.id, p.topic_uuid, p.next_offset FROM integration_queuepartition p
  WHERE EXISTS (SELECT 1 FROM integration_rescue r WHERE r.partition_id = p.id
    AND r.from_offset < r.to_offset
    AND (r.from_offset < p.next_offset OR r.topic_uuid <> p.topic_uuid))
  ORDER BY p.id FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE integration_rescue r
SET from_offset = CASE WHEN r.topic_uuid = place.topic_uuid
  THEN greatest(r.from_offset, least(r.to_offset, place.next_offset)) ELSE r.to_offset END
FROM place WHERE r.partition_id = place.id
"""
_PASSED: Final = """
SELECT id, partition_id, topic_uuid, swept_to, from_offset FROM integration_rescue
WHERE swept_to < from_offset ORDER BY id
"""
# What lies in a range of its own again was copied anew.
_SWEEP: Final = """
WITH few AS (
  SELECT "offset" FROM integration_rescuedrecord
  WHERE partition_id = %(place)s AND topic_uuid = %(uuid)s
    AND "offset" >= %(swept)s AND "offset" < %(from)s ORDER BY "offset" LIMIT %(limit)s
), upto AS (
  SELECT CASE WHEN count(*) < %(limit)s THEN %(from)s ELSE max("offset") + 1 END AS upto FROM few
), gone AS (
  DELETE FROM integration_rescuedrecord d USING upto
  WHERE d.partition_id = %(place)s AND d.topic_uuid = %(uuid)s
    AND d."offset" >= %(swept)s AND d."offset" < upto.upto
    AND NOT EXISTS (SELECT 1 FROM integration_rescue o
      WHERE o.partition_id = d.partition_id AND o.topic_uuid = d.topic_uuid
      AND d."offset" >= o.from_offset AND d."offset" < o.to_offset)
  RETURNING d.size
)
UPDATE integration_rescue SET swept_to = (SELECT upto FROM upto),
  records = greatest(0, records - (SELECT count(*) FROM gone)),
  bytes = greatest(0, bytes - (SELECT coalesce(sum(size), 0) FROM gone))
WHERE id = %(id)s AND swept_to = %(swept)s
RETURNING swept_to, (SELECT count(*) FROM gone)
"""
_FORGET: Final = "DELETE FROM integration_rescue WHERE swept_to = to_offset"

# Where a topic ends before what was rescued of it, other messages get the offsets from there on.
# Only what stood already when the topic was asked tells that. A run that is under way does not know
# it: its epoch is over.
_CUT: Final = """
UPDATE integration_queuepartition p SET lost_from = d.high, epoch = p.epoch + 1
FROM unnest(%s::int[], %s::bigint[]) d (partition, high)
WHERE p.queue_id = %s AND p.topic_uuid = %s AND p.partition = d.partition
  AND (p.lost_from IS NULL OR p.lost_from > d.high)
  AND (p.moved_at IS NULL OR p.moved_at < %s)
  AND EXISTS (SELECT 1 FROM integration_rescue r
    WHERE r.partition_id = p.id AND r.topic_uuid = p.topic_uuid AND r.from_offset < r.to_offset
    AND r.to_offset > greatest(d.high, p.next_offset) AND r.grew_at < %s)
"""
# What is in no danger any more, by partition (queue, partition), except of the queues named.
_OVER: Final = """
UPDATE integration_queuepartition SET rescue_code = '', rescue_text = '' WHERE id IN (
  SELECT p.id FROM integration_queuepartition p
  WHERE p.rescue_code <> '' AND p.queue_id <> ALL(%s) AND NOT EXISTS (
    SELECT 1 FROM unnest(%s::bigint[], %s::int[]) d (queue_id, partition)
    WHERE d.queue_id = p.queue_id AND d.partition = p.partition)
  FOR NO KEY UPDATE OF p SKIP LOCKED)
"""


def is_full(queue_id: int, partitions: Sequence[int]) -> bool:
    """Return whether the last rescue of all these ended at the limit, and that still stands."""
    found = fetch_all(_IS_FULL, [queue_id, queue_id, list(partitions)])
    return bool(found and found[0][0])


def forget_endings(but: Sequence[tuple[int, int]], unknown: Sequence[int]) -> None:
    """Forget how rescues ended, but for partitions (queue, number) and whole queues."""
    queues, numbers = [queue for queue, _ in but], [number for _, number in but]
    execute(_OVER, [list(unknown), queues, numbers])


def note_cut(queue_id: int, facts: TopicFacts, as_of: datetime) -> int:
    """Note where partitions had lost what was rescued of them when the topic was asked.

    Returns how many. Whoever has read the rest of it is told, and no message passed unread, however
    far the topic has grown since.
    """
    partitions, ends = zip(*facts.high.items(), strict=True) if facts.high else ((), ())
    return execute(_CUT, [list(partitions), list(ends), queue_id, facts.topic_uuid, as_of, as_of])


def read(owned: Owned, limit: int) -> tuple[str, list[Any]]:
    """The statement that reads what is next at a position, and its parameters."""
    until = owned.rescued_until or owned.next_offset
    place = [owned.id, owned.topic_uuid, owned.next_offset, until]
    return _READ, [*place, limit, READ_BYTES]


def record(partition: int, row: Sequence[Any]) -> Record:
    """One selected row as the record that it was."""
    offset, timestamp_ms, key, value, headers = row
    return Record(
        partition,
        offset,
        timestamp_ms,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        decode_headers(json.loads(headers)) if headers else None,
    )


def sweep(stop: Callable[[], bool] = lambda: False) -> int:
    """Give up what positions have passed, or a topic that is another one now; rows removed.

    A range is given up before its rows are: nothing ever reads a range of which rows are missing.
    """
    execute(_SHRINK)
    removed = 0
    for id_, place, uuid, begin, first in fetch_all(_PASSED):
        values = {"id": id_, "place": place, "uuid": uuid, "from": first, "limit": SWEPT_AT_ONCE}
        swept = begin
        while swept < first and not stop():
            # Nothing comes back where somebody else sweeps the same range.
            [(swept, gone)] = fetch_all(_SWEEP, values | {"swept": swept}) or [(first, 0)]
            removed += gone
    execute(_FORGET)
    return removed


class DatabaseRescues:
    """See delivery.rescuing.RescueStore: what one rescue of one queue writes."""

    def __init__(self, queue_id: int) -> None:
        self.queue_id = queue_id

    def first_untried(self, owned: Owned) -> int:
        [(offset,)] = fetch_all(_FIRST_UNTRIED, [owned.id])
        return int(offset)

    def room(self) -> int:
        [(room,)] = fetch_all(_ROOM, [self.queue_id])
        return int(room)

    def add(self, owned: Owned, piece: Piece, step: Callable[[RescueStep], None]) -> bool:
        place = {"id": owned.id, "uuid": owned.topic_uuid}
        counted = {"records": len(piece.records), "bytes": sum(piece.sizes)}
        bounds = {"first": piece.first, "end": piece.end, "reason": piece.reason}
        fence = [piece.end, owned.id, owned.epoch, owned.next_offset, owned.topic_uuid]
        with transaction.atomic(using=alias(), durable=True):
            step(RescueStep.BEGUN)
            execute(_CLEAR, [*place.values(), piece.first, piece.end])
            self._copy(owned, piece)
            step(RescueStep.COPIED)
            # The partition's row before the range's, as the sweep locks them.
            is_ours = execute(_FENCE, fence) == 1
            if is_ours:
                execute(_GROW, place | counted | bounds)
            else:
                transaction.set_rollback(True, using=alias())
        if is_ours:
            step(RescueStep.COMMITTED)
        return is_ours

    def _copy(self, owned: Owned, piece: Piece) -> None:
        connection = django_connection()
        raw: Any = connection.connection
        with connection.wrap_database_errors, raw.cursor() as cursor, cursor.copy(_COPY) as copy:
            copy.set_types(_TYPES)
            id_, uuid, write = owned.id, owned.topic_uuid, copy.write_row
            for one, size in zip(piece.records, piece.sizes, strict=True):
                headers = _text(one.headers) if one.headers else ""
                write((id_, uuid, one.offset, one.timestamp_ms, size, one.key, one.value, headers))

    def note(self, owned: Owned, code: str, text: str) -> None:
        execute(_NOTE, [code, text, owned.id, owned.epoch, code, text])


def _text(headers: Headers) -> str:
    """Return headers as they came, also with characters that a JSON column cannot keep."""
    pairs = [(name, None if v is None else b64encode(v).decode("ascii")) for name, v in headers]
    return json.dumps(pairs)
