"""Calls of endpoints in SQL: intents before them, ends after them, and what a crash left."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from integration.delivery.owned import Owned
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Doubt, Intent, Past
from integration.policy.states import CLOSED_SQL, DUE_SQL, OPEN_SQL
from integration.store import rows
from integration.values import content_hash

# An intent is written only under the circuit it was meant for, so that of all runs exactly one
# makes the probe, whatever each of them believes.
# The row of the partition is locked before its stop is read: a person who sets one meanwhile either
# waits, and sees these intents, or was first, and they are left out.
INTEND: Final = """
WITH here AS MATERIALIZED (
  SELECT stop_at FROM integration_queuepartition WHERE id = %s FOR NO KEY UPDATE
)
INSERT INTO integration_delivery (queue_id, endpoint_id, topic_uuid, partition, "offset", error,
  message_id, interface, attempt, state, epoch, started_at, code, text, excerpt)
SELECT %s, v.endpoint, v.topic, v.partition, v.at, v.error, v.message, v.interface, v.attempt,
  'SENDING', %s, clock_timestamp(), '', '', ''
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::bigint[], %s::uuid[], %s::text[], %s::text[],
  %s::int[], %s::bigint[])
  v (endpoint, topic, partition, at, error, message, interface, attempt, circuit)
JOIN integration_endpointcircuit c ON c.endpoint_id = v.endpoint
  AND (c.state = 'CLOSED' OR (c.state = 'HALF_OPEN' AND c.version = v.circuit))
WHERE v.error IS NOT NULL OR NOT EXISTS (SELECT 1 FROM here WHERE here.stop_at <= v.at)
ORDER BY v.at RETURNING id, topic_uuid, partition, "offset"
"""
MARK_ROWS: Final = f"""
UPDATE integration_messageerror e SET state = 'PROCESSING', epoch = %s, version = e.version + 1
FROM unnest(%s::uuid[], %s::int[]) v (id, version)
WHERE e.id = v.id AND e.version = v.version AND e.state IN {DUE_SQL} RETURNING e.id
"""
# What a call told nothing about is as it was before the call.
RETURN_ROWS: Final = """
UPDATE integration_messageerror e SET state = v.state, epoch = NULL, version = e.version + 1
FROM unnest(%s::uuid[], %s::text[]) v (id, state)
WHERE e.id = v.id AND e.state = 'PROCESSING' AND e.epoch = %s
"""
END: Final = """
UPDATE integration_delivery d SET state = v.state, ended_at = clock_timestamp(),
  took_ms = v.took, status = v.status, code = v.code, text = v.text, excerpt = v.excerpt
FROM unnest(%s::bigint[], %s::text[], %s::int[], %s::int[], %s::text[], %s::text[], %s::text[])
  v (id, state, took, status, code, text, excerpt)
WHERE d.id = v.id AND d.state = 'SENDING'
"""
REPLACE: Final = (
    "UPDATE integration_delivery SET state = 'FAILED', code = 'SENT_AGAIN', "
    "ended_at = clock_timestamp(), text = 'The run ended during the call; the message was sent "
    "again with the same id.' WHERE id = ANY(%s) AND state = 'SENDING'"
)
# A person released what may have arrived: from now on the new call tells.
DECIDED: Final = (
    "UPDATE integration_delivery d SET state = 'FAILED', code = 'RELEASED', "
    "ended_at = coalesce(d.ended_at, clock_timestamp()) "
    "FROM unnest(%s::int[], %s::bigint[], %s::text[]) v (partition, at, topic) "
    'WHERE d.queue_id = %s AND d.partition = v.partition AND d."offset" = v.at '
    "AND d.topic_uuid = v.topic AND d.state = 'UNKNOWN'"
)
_HERE: Final = f"""d.queue_id = %(queue)s AND d.state = 'SENDING' AND d.epoch < %(epoch)s
  AND (d.partition = %(partition)s OR (%(lowest)s AND {rows.of_nobody("d")}))"""
# Nothing will ever ask about these again: another topic, a position that a person moved on, a
# failure that a person closed.
PASSED_OVER: Final = f"""
UPDATE integration_delivery d SET state = 'FAILED', code = 'PASSED_OVER',
  ended_at = clock_timestamp(), text = 'The run ended during the call, and a person went on.'
WHERE {_HERE} AND CASE WHEN d.error IS NULL
  THEN d.topic_uuid <> %(topic)s OR d."offset" < %(next)s
  ELSE NOT EXISTS (SELECT 1 FROM integration_messageerror e WHERE e.id = d.error
    AND e.state IN {OPEN_SQL}) END
"""
# The code of a call that a restore interrupted and that people want to look at themselves.
HELD_CODE: Final = "RESTORED_REVIEW"
DOUBTS: Final = f"""
SELECT d.id, d.endpoint_id, d.error, d."offset", d.attempt, d.code = '{HELD_CODE}',
  (SELECT count(*) FROM integration_delivery r
  WHERE r.queue_id = d.queue_id AND r.partition = d.partition AND r."offset" = d."offset"
  AND r.topic_uuid = d.topic_uuid AND r.code = 'SENT_AGAIN')
FROM integration_delivery d WHERE {_HERE} ORDER BY d.id
"""
# While an endpoint is tried again, no call begins but the probe: what an earlier owner left, and
# what began since, was it. Nobody will hear of it, and the next one need not wait for its time.
FREE_PROBES: Final = f"""
UPDATE integration_endpointcircuit c SET state = 'OPEN', version = c.version + 1,
  resume_at = clock_timestamp(), changed_at = clock_timestamp()
FROM integration_delivery d
WHERE {_HERE} AND c.endpoint_id = d.endpoint_id AND c.state = 'HALF_OPEN'
  AND d.started_at >= c.changed_at
"""
DELIVERED: Final = """
SELECT "offset", message_id FROM integration_delivery
WHERE queue_id = %(queue)s AND partition = %(partition)s AND "offset" = ANY(%(offsets)s)
  AND topic_uuid = %(topic)s AND state = 'DELIVERED'
"""
# What is sent again is of no topic any more: until one that counts is met, this passes all of it.
LAST_DELIVERED: Final = """
SELECT coalesce(max("offset"), -1) FROM integration_delivery
WHERE queue_id = %(queue)s AND partition = %(partition)s AND "offset" >= %(next)s
  AND topic_uuid = %(topic)s AND state = 'DELIVERED'
"""
DELETED: Final = f"""
SELECT "offset", payload FROM integration_messageerror
WHERE queue_id = %(queue)s AND partition = %(partition)s AND "offset" = ANY(%(offsets)s)
  AND topic_uuid = %(topic)s AND state IN {CLOSED_SQL}
"""
Run = Callable[[str, Any], Any]


def parameters_of(queue: int, owned: Owned, offsets: Sequence[int]) -> dict[str, Any]:
    """Parameters of the questions about what earlier owners left of a partition."""
    return {
        "queue": queue,
        "partition": owned.partition,
        "topic": owned.topic_uuid,
        "next": owned.next_offset,
        "offsets": list(offsets),
        "epoch": owned.epoch,
        "lowest": owned.is_lowest,
    }


def past(run: Run, where: dict[str, Any], last: int | None) -> Past:
    """What earlier owners left about calls of a partition. `run` returns rows.

    `last` is what LAST_DELIVERED told before, None if it was not asked.
    """
    doubts: dict[int, Doubt] = {}
    errors = {}
    for id_, endpoint, error, offset, attempt, is_held, repeated in run(DOUBTS, where):
        doubt = Doubt(id_, endpoint, attempt, repeated, is_held=is_held)
        if error is None:
            doubts[offset] = doubt
        else:
            errors[error] = doubt
    delivered, deleted = [
        run(sql, where) if where["offsets"] else () for sql in (DELIVERED, DELETED)
    ]
    return Past(
        delivered=dict(delivered),
        deleted={at: content_hash(_bytes(value)) for at, value in deleted},
        doubts=doubts,
        doubted_errors=errors,
        last=run(LAST_DELIVERED, where)[0][0] if last is None else last,
    )


def write(run: Run, dispatch: Dispatch, queue: int, owned: Owned) -> None:
    """Write ends, give failures back, then mark and intend what comes next. `run`: a cursor."""
    if dispatch.ends:
        run(END, rows.columns([end_values(end) for end in dispatch.ends]))
    if dispatch.returned:
        columns = rows.columns([[row.id, row.state] for row in dispatch.returned])
        run(RETURN_ROWS, [*columns, owned.epoch])
    if dispatch.intents:
        _intend(run, dispatch.intents, queue, owned)


def end_values(end: DeliveryEnd) -> list[Any]:
    """The columns that a call's end writes."""
    words = end_words(end.code, end.text, end.excerpt)
    return [end.id, end.state, end.took_ms, end.status, *words]


def end_words(code: str, text: str, excerpt: str) -> tuple[str, str, str]:
    """What was said at a call's end, as columns hold it."""
    return rows.plain(code, 60), rows.plain(text), rows.plain(excerpt)


def _intend(run: Run, intents: Sequence[Intent], queue: int, owned: Owned) -> None:
    meant = _marked(run, intents, owned)
    if not meant:
        return
    values = [_intent(intent, owned) for intent in meant]
    written = run(INTEND, [owned.id, queue, owned.epoch, *rows.columns(values)]).fetchall()
    # The topic, too: failures of one before may lie at the same places.
    ids = {tuple(place): id_ for id_, *place in written}
    for intent in meant:
        record = intent.unit.record
        place = (_topic(intent, owned), record.partition, record.offset)
        intent.id = ids.get(place)
    done = [intent for intent in meant if intent.id is not None]
    replaced = [old for intent in done for old in intent.replaces]
    if replaced:
        run(REPLACE, [replaced])
    _settle_rows(run, meant, queue, owned)


def _marked(run: Run, intents: Sequence[Intent], owned: Owned) -> list[Intent]:
    """Failures get the marker of the one in work; those that a person moved are left out."""
    from_rows = [i.unit.row for i in intents if i.unit.row is not None]
    if not from_rows:
        return list(intents)
    columns = rows.columns([[row.id, row.version] for row in from_rows])
    marked = {id_ for (id_,) in run(MARK_ROWS, [owned.epoch, *columns]).fetchall()}
    return [i for i in intents if i.unit.row is None or i.unit.row.id in marked]


def _settle_rows(run: Run, meant: Sequence[Intent], queue: int, owned: Owned) -> None:
    unmade = [i.unit.row for i in meant if i.id is None and i.unit.row is not None]
    if unmade:
        columns = rows.columns([[row.id, row.state] for row in unmade])
        run(RETURN_ROWS, [*columns, owned.epoch])
    decided = [i.unit.row for i in meant if i.id is not None and i.unit.row is not None]
    if decided:
        places = [[row.partition, row.offset, row.topic_uuid] for row in decided]
        run(DECIDED, [*rows.columns(places), queue])


def _intent(intent: Intent, owned: Owned) -> list[Any]:
    unit, row = intent.unit, intent.unit.row
    return [
        intent.endpoint,
        _topic(intent, owned),
        unit.record.partition,
        unit.record.offset,
        None if row is None else row.id,
        rows.plain(unit.message_id, 1_000),
        rows.plain(unit.interface, 100),
        intent.attempt,
        intent.circuit_version,
    ]


def _topic(intent: Intent, owned: Owned) -> str:
    row = intent.unit.row
    return owned.topic_uuid if row is None else row.topic_uuid


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)
