"""The ordinary commit of sending as one statement: what arrived, the position, what comes next.

A queue that sends one message at a time commits once for each: every round trip counts. Whatever
has more to say (a failure, a state, a row of the error table) goes the long way of
`store.unit_of_work`.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Intent
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.tracked import Track, Tracked
from integration.store import deliveries, rows
from integration.store.queue_stops import KEEPS_STOP

Run = Callable[[str, Any], Any]
Values = tuple[Any, ...]
# What it has in common with others, and what it has of its own.
Row = tuple[Values, Values]
Names = tuple[Sequence[str], Sequence[str]]
# Everything hangs on `fenced`: where it finds no row, nothing is written.
SETTLE: Final = f"""
WITH fenced AS (
  UPDATE integration_queuepartition SET next_offset = %s, last_batch = %s,
    progressed_at = clock_timestamp()
  WHERE id = %s AND epoch = %s AND next_offset = %s AND {KEEPS_STOP}
  RETURNING queue_id, partition, epoch, topic_uuid, stop_at
), ended AS (
  UPDATE integration_delivery d SET state = v.state, ended_at = clock_timestamp(),
    took_ms = v.took, status = v.status, code = v.code, text = v.text, excerpt = v.excerpt
  FROM fenced, json_to_recordset(%s::json) v (ids bigint[], state text, took int, status int,
    code text, text text, excerpt text)
  WHERE d.id = ANY(v.ids) AND d.state = 'SENDING'
), tracked AS (
  INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, message_id,
    interface, ended, key, kafka_ms, external_id, search_a, search_b, caused_by, payload, schema_id,
    trace_id)
  SELECT f.queue_id, f.partition, t.at, a.number, t.message, v.interface, v.ended, t.key, t.ms,
    t.external, t.a, t.b, t.cause, decode(t.payload, 'hex'), t.schema, t.trace
  FROM fenced f, (SELECT nextval('integration_arrival') AS number) a,
    json_to_recordset(%s::json) v (interface text, ended text, at bigint[], message text[],
    key text[], ms bigint[], external text[], a text[], b text[], cause text[], payload text[],
    schema int[], trace uuid[]),
    unnest(v.at, v.message, v.key, v.ms, v.external, v.a, v.b, v.cause, v.payload, v.schema,
    v.trace) t (at, message, key, ms, external, a, b, cause, payload, schema, trace)
), intended AS (
  INSERT INTO integration_delivery (queue_id, endpoint_id, topic_uuid, partition, "offset",
    message_id, interface, attempt, state, epoch, started_at, code, text, excerpt)
  SELECT f.queue_id, v.endpoint, f.topic_uuid, f.partition, i.at, i.message, v.interface,
    v.attempt, 'SENDING', f.epoch, clock_timestamp(), '', '', ''
  FROM fenced f, json_to_recordset(%s::json) v (endpoint bigint, interface text, attempt int,
    circuit bigint, at bigint[], message text[])
  JOIN integration_endpointcircuit c ON c.endpoint_id = v.endpoint
    AND (c.state = 'CLOSED' OR (c.state = 'HALF_OPEN' AND c.version = v.circuit))
  CROSS JOIN LATERAL unnest(v.at, v.message) i (at, message)
  WHERE f.stop_at IS NULL OR i.at < f.stop_at
  RETURNING id, "offset"
)
SELECT NULL::bigint, NULL::bigint FROM fenced UNION ALL SELECT id, "offset" FROM intended
"""
# What messages of one call or one batch mostly have in common, and what each has of its own.
END: Final = (("state", "took", "status", "code", "text", "excerpt"), ("ids",))
TRACK: Final = (
    ("interface", "ended"),
    (
        *("at", "message", "key", "ms"),
        *("external", "a", "b", "cause", "payload", "schema", "trace"),
    ),
)
INTENT: Final = (("endpoint", "interface", "attempt", "circuit"), ("at", "message"))


def is_ordinary(batch_result: BatchResult, owned: Owned) -> bool:
    """Return whether the one statement says it all."""
    dispatch = batch_result.dispatch
    if dispatch is None or dispatch.returned or owned.isolate_until is not None:
        return False
    if any(i.unit.row is not None or i.replaces for i in dispatch.intents):
        return False
    more = (
        batch_result.new_errors,
        batch_result.changes,
        batch_result.outgoing,
        batch_result.strays,
    )
    rest = (batch_result.copies, batch_result.seen, batch_result.state, batch_result.logged)
    return not any(more) and not any(rest)


def settle(run: Run, queue: QueueSnapshot, owned: Owned, batch_result: BatchResult) -> bool:
    """Write it; False when the partition is somebody else's by now, or a stop lies before."""
    dispatch = batch_result.dispatch or Dispatch()
    goes_to = batch_result.next_offset
    fence = [goes_to, uuid.uuid4(), owned.id, owned.epoch, owned.next_offset, goes_to]
    tracks = batch_result.tracks if queue.tracks else []
    parameters = [
        *fence,
        _together(END, map(_end, dispatch.ends), _plain_end),
        _together(TRACK, map(_track, tracks)),
        _together(INTENT, map(_intent, dispatch.intents)),
    ]
    written = run(SETTLE, parameters).fetchall()
    ids = {offset: id_ for id_, offset in written if id_ is not None}
    for intent in dispatch.intents:
        intent.id = ids.get(intent.unit.record.offset)
    return bool(written)


def _as_it_is(*common: Any) -> Values:
    return common


def _together(names: Names, rows_: Iterable[Row], shared: Callable[..., Values] = _as_it_is) -> str:
    """Rows as one parameter: two dozen arrays of one element each cost more than the statement.

    One object for all rows that have the same in common, with an array for each thing of their own.
    What is NULL is left out: that is what a missing member is read as. `shared` makes columns of
    what they have in common.
    """
    alike: dict[Values, list[Values]] = {}
    for common, own in rows_:
        alike.setdefault(common, []).append(own)
    return json.dumps([_object(names, shared(*common), owns) for common, owns in alike.items()])


def _object(names: Names, common: Values, owns: Sequence[Values]) -> dict[str, Any]:
    members = {name: one for name, one in zip(names[0], common, strict=True) if one is not None}
    columns = zip(names[1], zip(*owns, strict=True), strict=True)
    return members | {
        name: column for name, column in columns if any(one is not None for one in column)
    }


def _end(end: DeliveryEnd) -> Row:
    return (end.state, end.took_ms, end.status, end.code, end.text, end.excerpt), (end.id,)


def _plain_end(state: str, took_ms: int | None, status: int | None, *words: str) -> Values:
    return state, took_ms, status, *deliveries.end_words(*words)


def _track(track: Track) -> Row:
    at, message_id, interface, ended, key, kafka_ms, tracked = track
    text = "" if key is None else rows.plain(key.decode("utf-8", "replace"), 1_000)
    own = at, rows.plain(message_id, 1_000), text, kafka_ms or 0
    return (rows.plain(interface, 1_000), ended), (*own, *_searched(tracked))


def _searched(tracked: Tracked | None) -> Values:
    """What can be found by it, its payload, the schema of that, and its trace."""
    if tracked is None:
        return (None,) * 7
    ids = [None if text is None else rows.plain(text, 1_000) for text in tracked[:4]]
    payload = None if tracked[4] is None else tracked[4].hex()
    return (*ids, payload, tracked.schema, tracked.trace_id)


def _intent(intent: Intent) -> Row:
    unit = intent.unit
    interface = rows.plain(unit.interface, 100)
    common = intent.endpoint, interface, intent.attempt, intent.circuit_version
    return common, (unit.record.offset, rows.plain(unit.message_id, 1_000))
