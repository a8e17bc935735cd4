"""The error table as the engine reads and writes it: rows in, rows out, in bulk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final
from uuid import UUID

from psycopg.types.json import Jsonb

from integration.codec import decode_headers, encode_headers
from integration.delivery.batch_result import NewError, RowChange
from integration.delivery.foreign import letter_of
from integration.delivery.key_order import order_key_of
from integration.delivery.owned import Owned
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.unit import OpenError, Unit
from integration.models.registry_schema import SUBJECT_CHARACTERS
from integration.policy.dependency import clean_kind, object_hash, stored_key
from integration.policy.failure import Failure
from integration.policy.states import CLOSED_SQL, DUE_SQL, OPEN_SQL, ErrorState
from integration.store import strict_order
from integration.store.key_order import AT_ONCE, IS_FIRST_OF_KEY, IS_THE_FIRST
from integration.values import Record, moment_of, readable_moment

# The delay of a retry marker before its row is taken without it (design: continuous).
RETRY_MARKER_GRACE_SECONDS: Final = 30


def of_nobody(row: str) -> str:
    """SQL condition: the partition of this row is gone; the owner of the lowest works for it."""
    return (
        "NOT EXISTS (SELECT 1 FROM integration_queuepartition p "
        f"WHERE p.queue_id = {row}.queue_id AND p.partition = {row}.partition)"
    )


# As OpenError has them, but for what its record is made of.
COLUMNS: Final = f"""
 e.id, e.version, e.state, e.partition, e."offset", e.topic_uuid, e.attempts, e.retry_no, e.spent,
 e.crashes, e.carrier, e.code,
 coalesce(extract(epoch FROM e.not_before - clock_timestamp()), 0)::float8, e.late,
 e.apply_as_newest, e.parked_at IS NOT NULL, e.copied_at IS NOT NULL,
 e.arrival_batch, e.arrival_index, e.newest_batch, e.newest_index,
 extract(epoch FROM clock_timestamp() - coalesce(e.budget_since, e.first_failed_at))::float8,
 {readable_moment("e.kafka_timestamp")},
 e.message_id, e.interface, e.order_key, e.waits_for,
 e.key, coalesce(e.edited_payload, e.payload), e.headers
"""
_NAMES: Final = [field.name for field in fields(OpenError) if field.name != "record"]
_IS_DUE: Final = """e.not_before + CASE e.carrier WHEN 'topic'
       THEN %(grace)s ELSE 0 END * interval '1 second' <= clock_timestamp()"""
# Up to `turn` a failure waits for the position to come to it. Tried before, it would be applied
# before older messages of its key that are read again.
_HAS_ITS_PLACE: Final = """NOT (e.topic_uuid = %(uuid)s AND e.partition = %(partition)s
           AND e."offset" >= %(next)s AND e."offset" < %(turn)s)"""
_LAST_OFFSET: Final = 2**63 - 1
_DUE: Final = f"""
SELECT {COLUMNS} FROM integration_messageerror e
WHERE e.queue_id = %(queue)s AND e.state IN {DUE_SQL}
  AND (e.partition = %(partition)s OR (%(lowest)s AND {of_nobody("e")}))
  AND (e.state = 'READY' OR {_IS_DUE})
  AND {_HAS_ITS_PLACE}
"""
_IN_ORDER: Final = "ORDER BY e.arrival_batch, e.arrival_index LIMIT %(limit)s"
_ARE_OWN: Final = f"""
FROM integration_messageerror e
WHERE e.queue_id = %(queue)s AND e.partition = %(partition)s AND {_HAS_ITS_PLACE}
"""
_PLACED: Final = f"SELECT {COLUMNS}, e.arrival_batch AS batch, e.arrival_index AS place"
_OWN: Final = f"{_PLACED}{_ARE_OWN}"
_OWN_BY_KEY: Final = f"{_PLACED}, {IS_THE_FIRST} AS is_first{_ARE_OWN}"
_OWN_BESIDE: Final = f"{_PLACED}, (e.parked_at IS NULL OR {IS_THE_FIRST}) AS is_first{_ARE_OWN}"
# Of a sequential queue only what is parked keeps the order of its key: what its head has passed was
# not stopped by it, and nobody would park it until its turn.
_HAS_ITS_TURN: Final = f"""((NOT %(keyed)s
    AND NOT (%(beside)s AND e.parked_at IS NOT NULL)) OR {IS_FIRST_OF_KEY})"""
# Each branch reads the index of open failures in its order and stops at the limit: behind a
# bulk release fifty thousand rows are READY, and none of them is sorted for the next batch.
DUE: Final = f"""
SELECT * FROM (
  ({_OWN} AND e.state = 'READY' {_IN_ORDER})
  UNION ALL ({_OWN} AND e.state = 'RETRY' AND {_IS_DUE} {_IN_ORDER})
) e ORDER BY e.batch, e.place LIMIT %(limit)s"""
# Rows of partitions that are gone are looked for when nothing else is due.
DUE_OF_NOBODY: Final = f"""
SELECT {COLUMNS} FROM integration_messageerror e
WHERE e.queue_id = %(queue)s AND e.state IN {DUE_SQL} AND {of_nobody("e")}
  AND (e.state = 'READY' OR {_IS_DUE}) AND {_HAS_ITS_TURN} {_IN_ORDER}
"""
# Only where the messages of a key keep their order. What was released behind an open failure of
# its key is among them, and says so at the end: it is to be parked.
DUE_BY_KEY: Final = f"""
SELECT * FROM (
  ({_OWN_BY_KEY} AND e.state = 'READY' {_IN_ORDER})
  UNION ALL ({_OWN_BY_KEY} AND e.state = 'RETRY' AND {_IS_DUE} AND {IS_FIRST_OF_KEY} {_IN_ORDER})
) e ORDER BY e.batch, e.place LIMIT %(limit)s"""
# The same in a sequential queue, where something is parked.
DUE_BESIDE_PARKED: Final = f"""
SELECT * FROM (
  ({_OWN_BESIDE} AND e.state = 'READY' {_IN_ORDER})
  UNION ALL ({_OWN_BESIDE} AND e.state = 'RETRY' AND {_IS_DUE}
    AND (e.parked_at IS NULL OR {IS_FIRST_OF_KEY}) {_IN_ORDER})
) e ORDER BY e.batch, e.place LIMIT %(limit)s"""
# So many at a time: one statement of a run takes no longer than a handler may. What somebody holds
# is left for another look. They are joined by nothing but their ids: just after a release the
# planner believes that no row is READY, and would compare each with all.
PARK_RELEASED: Final = f"""
WITH behind AS MATERIALIZED (
  SELECT e.id{_ARE_OWN} AND e.state = 'READY'
    AND (%(keyed)s OR e.parked_at IS NOT NULL) AND NOT {IS_THE_FIRST}
  LIMIT {AT_ONCE} FOR UPDATE OF e SKIP LOCKED
)
UPDATE integration_messageerror e SET state = 'PARKED', version = e.version + 1
FROM behind, integration_queuepartition o
WHERE e.id = behind.id AND o.id = %(place)s AND o.epoch = %(epoch)s
RETURNING e.id"""
OF_KEYS: Final = f"""
SELECT {COLUMNS} FROM unnest(%s::bytea[]) k (key) CROSS JOIN LATERAL (
  SELECT * FROM integration_messageerror o
  WHERE o.queue_id = %s AND o.order_key = k.key AND o.state IN {OPEN_SQL} AND o.partition = %s
    AND NOT (o.topic_uuid = %s AND o."offset" >= %s AND o."offset" < %s)
  ORDER BY o.arrival_batch, o.arrival_index LIMIT %s) e
ORDER BY e.arrival_batch, e.arrival_index LIMIT %s"""
# Only where the queue's error queue is strict; everybody else's query knows nothing of turns.
DUE_IN_TURN: Final = f"""
WITH turn AS MATERIALIZED ({strict_order.TURNS} AND s.id = %(strict)s)
{_DUE} AND NOT EXISTS (SELECT 1 FROM turn WHERE {strict_order.WAITS})
  AND {_HAS_ITS_TURN}
{_IN_ORDER}"""
# A marker of a failure's former life, before its message was read again, says nothing of this one.
RETRY_ROWS: Final = f"""
SELECT {COLUMNS} FROM integration_messageerror e
JOIN unnest(%s::uuid[], %s::int[]) t (id, retry_no) ON e.id = t.id AND e.retry_no = t.retry_no
WHERE e.queue_id = %s AND e.state = 'RETRY' AND e.carrier = 'topic'
  AND (NOT %s OR {IS_FIRST_OF_KEY})
"""


def open_error(row: Sequence[Any]) -> OpenError:
    """One selected row as a value; its record carries the payload to be tried next."""
    by_name = dict(zip(_NAMES, row, strict=False))
    for name in ("order_key", "waits_for"):
        if by_name[name] is not None:
            by_name[name] = bytes(by_name[name])
    key, payload, headers = row[len(_NAMES) : len(_NAMES) + 3]
    stamp = by_name["timestamp"]
    record = Record(
        by_name["partition"],
        by_name["offset"],
        None if stamp is None else int(stamp.timestamp() * 1000),
        None if key is None else bytes(key),
        None if payload is None else bytes(payload),
        # Django's connections hand jsonb over as text.
        decode_headers(json.loads(headers)),
    )
    return OpenError(**by_name, record=record)


def turn(queue: QueueSnapshot, owned: Owned) -> int:
    """Return up to where failures from the position on wait for it to come to them."""
    return _LAST_OFFSET if queue.sequential else owned.moved_until or 0


def due_parameters(queue: QueueSnapshot, owned: Owned, limit: int) -> dict[str, Any]:
    return {
        "queue": queue.id,
        "strict": queue.strict_error_queue,
        "partition": owned.partition,
        "lowest": owned.is_lowest,
        "grace": RETRY_MARKER_GRACE_SECONDS,
        "turn": turn(queue, owned),
        "uuid": owned.topic_uuid,
        "place": owned.id,
        "epoch": owned.epoch,
        "next": owned.next_offset,
        "limit": limit,
        "keyed": queue.keeps_keys_in_order,
        "beside": owned.has_parked,
    }


def plain(text: str, limit: int = 8_000) -> str:
    """Text that the database can hold: no NUL, no lone surrogate, bounded."""
    cleaned = text[:limit].replace("\x00", "\ufffd")
    if cleaned.isascii():
        return cleaned
    return cleaned.encode("utf-8", "replace").decode("utf-8")


INSERT_COLUMNS: Final = (
    'id, queue_id, topic_uuid, partition, "offset", kafka_timestamp, message_id, interface, '
    "sender, key, headers, payload, state, failure_class, code, text, detail, fingerprint, "
    "attempts, retry_no, spent, crashes, not_before, carrier, arrival_batch, arrival_index, "
    "order_key, parked_at, copied_at, first_failed_at, last_failed_at, late, apply_as_newest, "
    "version, edited_by, ended, waits_kind, waits_key, waits_for, retry_by, "
    "origin_topic, origin_partition, origin_offset, cause_class, "
    "schema_id, schema_subject, schema_version"
)
# Copies of one commit share one time, the transaction's: among them the arrival decides whose turn
# it is on a strict error queue, not the order in which a statement happened to write them.
INSERT_ROW: Final = (
    "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
    "%s, %s, %s, %s, clock_timestamp() + %s * interval '1 second', %s, %s, %s, %s, "
    "CASE WHEN %s THEN now() END, CASE WHEN %s THEN now() END, clock_timestamp(), "
    "clock_timestamp(), false, false, 1, '', '', %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
# An offset that failed before and is met again after a rewind: its closed row is opened again, and
# is as new as what was read anew around it. What a person decided of its former life, how long that
# had failed, and that it was copied, says nothing of this one.
REOPEN: Final = (
    'ON CONFLICT (queue_id, topic_uuid, partition, "offset") DO UPDATE SET '
    "state = excluded.state, failure_class = excluded.failure_class, code = excluded.code, "
    "text = excluded.text, detail = excluded.detail, fingerprint = excluded.fingerprint, "
    "attempts = integration_messageerror.attempts + least(excluded.attempts, 1), "
    "spent = excluded.spent, waits_kind = excluded.waits_kind, waits_key = excluded.waits_key, "
    "waits_for = excluded.waits_for, order_key = excluded.order_key, "
    "arrival_batch = excluded.arrival_batch, arrival_index = excluded.arrival_index, "
    "retry_by = excluded.retry_by, budget_since = NULL, "
    "schema_id = excluded.schema_id, schema_subject = excluded.schema_subject, "
    "schema_version = excluded.schema_version, "
    "parked_at = excluded.parked_at, copied_at = excluded.copied_at, copy_offset = NULL, "
    "late = false, apply_as_newest = false, newest_batch = NULL, newest_index = NULL, "
    "crashes = excluded.crashes, first_failed_at = excluded.first_failed_at, "
    "not_before = excluded.not_before, carrier = 'row', closed_at = NULL, ended = '', "
    "last_failed_at = excluded.last_failed_at, version = integration_messageerror.version + 1 "
    f"WHERE integration_messageerror.state IN {CLOSED_SQL} "
)


def insert_sql(count: int) -> str:
    marks = ", ".join([INSERT_ROW] * count)
    return (
        f"INSERT INTO integration_messageerror ({INSERT_COLUMNS}) VALUES {marks} {REOPEN}"
        'RETURNING id, "offset", attempts'
    )


def insert_values(
    queue: QueueSnapshot, owned: Owned, new: NewError, arrival_batch: int, *, copied: bool
) -> list[Any]:
    """Parameters of one new row; `copied`: its copy goes out in the same commit."""
    record, failure, unit = new.unit.record, new.failure, new.unit
    sender = unit.message.sender if unit.message is not None else None
    counters = new.counters
    return [
        new.id,
        queue.id,
        owned.topic_uuid,
        record.partition,
        record.offset,
        moment_of(record.timestamp_ms),
        plain(unit.message_id, 1_000),
        plain(unit.interface, 100),
        plain(sender or "", 200),
        record.key,
        Jsonb(encode_headers(record.headers or ())),
        record.value,
        new.state,
        failure.kind,
        *_why(failure),
        failure.fingerprint,
        counters.attempts,
        counters.retry_no,
        counters.spent,
        counters.crashes,
        new.delay_seconds,
        new.carrier,
        arrival_batch,
        record.offset,
        unit.order_key if queue.order_texts is not None else order_key_of(record),
        new.state is ErrorState.PARKED,
        copied,
        *_waits(failure),
        new.retry_by,
        *_origin(new),
        *_schema(unit),
    ]


# All changes in one statement; a row that a person moved meanwhile is not among the ids. What is
# parked was not tried, and keeps what it had.
CHANGE: Final = """
UPDATE integration_messageerror e SET state = v.state, version = e.version + 1, epoch = NULL,
  failure_class = coalesce(v.kind, e.failure_class), code = coalesce(v.code, e.code),
  text = coalesce(v.text, e.text), detail = coalesce(v.detail, e.detail),
  fingerprint = coalesce(v.fingerprint, e.fingerprint), attempts = v.attempts,
  waits_kind = coalesce(v.waits_kind, e.waits_kind), waits_key = coalesce(v.waits_key, e.waits_key),
  waits_for = CASE WHEN v.waits_kind IS NULL THEN e.waits_for ELSE v.waits_for END,
  retry_no = v.retry_no, spent = v.spent, retry_by = coalesce(nullif(v.retry_by, ''), e.retry_by),
  budget_since = CASE e.spent WHEN 0 THEN clock_timestamp() ELSE e.budget_since END,
  not_before = clock_timestamp() + v.delay * interval '1 second', carrier = v.carrier,
  arrival_batch = coalesce(e.arrival_batch, v.arrival_batch),
  arrival_index = coalesce(e.arrival_index, v.arrival_index),
  newest_batch = CASE WHEN v.state = 'PARKED' THEN e.newest_batch ELSE v.newest_batch END,
  newest_index = CASE WHEN v.state = 'PARKED' THEN e.newest_index ELSE v.newest_index END,
  parked_at = CASE WHEN v.state = 'PARKED' THEN now() ELSE e.parked_at END,
  copied_at = CASE WHEN v.copied THEN now() ELSE e.copied_at END,
  last_failed_at = CASE WHEN v.code IS NULL THEN e.last_failed_at ELSE clock_timestamp() END,
  closed_at = CASE WHEN v.state = 'RESOLVED' THEN clock_timestamp() END,
  ended = CASE WHEN v.state = 'RESOLVED' THEN v.ended ELSE '' END
FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
  %s::text[], %s::text[], %s::int[], %s::int[], %s::int[], %s::float8[], %s::text[], %s::bigint[],
  %s::bigint[], %s::bigint[], %s::bigint[], %s::boolean[], %s::text[], %s::text[], %s::bytea[],
  %s::text[])
  v (id, version, state, ended, kind, code, text, detail, fingerprint, attempts, retry_no, spent,
  delay, carrier, arrival_batch, arrival_index, newest_batch, newest_index, copied, waits_kind,
  waits_key, waits_for, retry_by)
WHERE e.id = v.id AND e.version = v.version RETURNING e.id, e.attempts
"""


def change_values(change: RowChange, arrival_batch: int, copied: frozenset[UUID]) -> list[Any]:
    failure, counters, row = change.failure, change.counters, change.row
    why: tuple[Any, ...] = (None,) * 5
    if failure is not None:
        why = (failure.kind, *_why(failure), failure.fingerprint)
    return [
        row.id,
        row.version,
        change.state,
        change.ended,
        *why,
        counters.attempts,
        counters.retry_no,
        counters.spent,
        change.delay_seconds,
        change.carrier,
        arrival_batch,
        row.offset,
        row.newest_batch,
        row.newest_index,
        row.id in copied,
        *((None, None, None) if failure is None else _waits(failure)),
        change.retry_by,
    ]


ATTEMPTS: Final = """
INSERT INTO integration_errorattempt
  (error_id, number, at, ended, code, text, detail, worker, edited)
SELECT v.id, v.number, clock_timestamp(), v.ended, v.code, v.text, v.detail, v.worker, false
FROM unnest(%s::uuid[], %s::int[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
  v (id, number, ended, code, text, detail, worker)
"""


def columns(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Rows as the arrays that `unnest` takes: psycopg wants one type in each, enums are texts."""
    return [
        [str(value) if isinstance(value, str) else value for value in column]
        for column in zip(*rows, strict=True)
    ]


def attempt_values(
    new: Sequence[NewError],
    changes: Sequence[RowChange],
    written: Mapping[UUID, tuple[UUID, int]],
    worker: str,
) -> list[list[Any]]:
    """One row for each settled try; `written` tells by id the row it belongs to and its number."""
    values: list[list[Any]] = [
        [*written[error.id], error.state, *_why(error.failure), worker]
        for error in new
        if error.id in written
    ]
    for change in changes:
        if change.row.id in written:
            why = ("", "", "") if change.failure is None else _why(change.failure)
            values.append([*written[change.row.id], change.ended, *why, worker])
    return values


def _waits(failure: Failure) -> tuple[str, str, bytes | None]:
    """What it waits for: kind, key, and both as they are found."""
    if failure.waits_for is None:
        return "", "", None
    kind, key = failure.waits_for
    return clean_kind(kind), plain(stored_key(key)), object_hash(kind, key)


def _origin(new: NewError) -> tuple[str, int | None, int | None, str]:
    """Where a dead letter came from, and the class of its exception."""
    letter = letter_of(new.unit.record, new.failure)
    if letter is None:
        return "", None, None, ""
    return letter.topic, letter.partition, letter.offset, letter.cause


def _schema(unit: Unit) -> tuple[int | None, str, int | None]:
    """What it is written by, where that is a schema registry's format."""
    facts = unit.schema
    if facts is None:
        return None, "", None
    return facts.id, plain(facts.subject, SUBJECT_CHARACTERS), facts.version


def _why(failure: Failure) -> tuple[str, str, str]:
    return failure.code, plain(failure.text), plain(failure.detail)
