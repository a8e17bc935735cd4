"""The ordinary commit of sending as one statement: what arrived, the position, what comes next.

A queue that sends one message at a time commits once for each: every round trip counts. Whatever
has more to say (a failure, a state, a row of the error table) goes the long way of
`store.unit_of_work`.
"""

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import Owned
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Intent
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.tracing import Track
from integration.store import deliveries, rows
from integration.store.queue_stops import KEEPS_STOP

Run = Callable[[str, Any], Any]
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
    interface, ended, key, kafka_ms, external_id, search_a, search_b, caused_by, payload, schema_id)
  SELECT f.queue_id, f.partition, v.at, a.number, v.message, v.interface, v.ended, v.key, v.ms,
    v.external, v.a, v.b, v.cause, decode(v.payload, 'hex'), v.schema
  FROM fenced f, (SELECT nextval('integration_arrival') AS number) a,
    json_to_recordset(%s::json) v (at bigint, message text, interface text, ended text, key text,
    ms bigint, external text, a text, b text, cause text, payload text, schema int)
), intended AS (
  INSERT INTO integration_delivery (queue_id, endpoint_id, topic_uuid, partition, "offset",
    message_id, interface, attempt, state, epoch, started_at, code, text, excerpt)
  SELECT f.queue_id, v.endpoint, f.topic_uuid, f.partition, v.at, v.message, v.interface,
    v.attempt, 'SENDING', f.epoch, clock_timestamp(), '', '', ''
  FROM fenced f, json_to_recordset(%s::json)
    v (endpoint bigint, at bigint, message text, interface text, attempt int, circuit bigint)
  JOIN integration_endpointcircuit c ON c.endpoint_id = v.endpoint
    AND (c.state = 'CLOSED' OR (c.state = 'HALF_OPEN' AND c.version = v.circuit))
  WHERE f.stop_at IS NULL OR v.at < f.stop_at
  RETURNING id, "offset"
)
SELECT NULL::bigint, NULL::bigint FROM fenced UNION ALL SELECT id, "offset" FROM intended
"""
END: Final = ("ids", "state", "took", "status", "code", "text", "excerpt")
TRACK: Final = (
    *("at", "message", "interface", "ended", "key", "ms"),
    *("external", "a", "b", "cause", "payload", "schema"),
)
INTENT: Final = ("endpoint", "at", "message", "interface", "attempt", "circuit")


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
        _ends(dispatch.ends),
        _recordset(TRACK, [_track(track) for track in tracks]),
        _recordset(INTENT, [_intent(intent) for intent in dispatch.intents]),
    ]
    written = run(SETTLE, parameters).fetchall()
    ids = {offset: id_ for id_, offset in written if id_ is not None}
    for intent in dispatch.intents:
        intent.id = ids.get(intent.unit.record.offset)
    return bool(written)


def _recordset(names: Sequence[str], values: Sequence[Sequence[Any]]) -> str:
    """Rows as one parameter: two dozen arrays of one element each cost more than the statement.

    What is NULL is left out: that is what a missing member is read as.
    """
    named = (zip(names, row, strict=True) for row in values)
    return json.dumps([{name: value for name, value in row if value is not None} for row in named])


def _ends(ends: Sequence[DeliveryEnd]) -> str:
    """The calls' ends; of many messages in one call all but the number is the same."""
    alike: dict[Any, list[DeliveryEnd]] = {}
    for end in ends:
        how = end.state, end.took_ms, end.status, end.code, end.text, end.excerpt
        alike.setdefault(how, []).append(end)
    values = [
        [[end.id for end in group], *deliveries.end_values(group[0])[1:]]
        for group in alike.values()
    ]
    return _recordset(END, values)


def _track(track: Track) -> list[Any]:
    at, message_id, interface, ended, key, kafka_ms, trace = track
    facts = [at, rows.plain(message_id, 1_000), rows.plain(interface, 1_000), ended]
    text = "" if key is None else rows.plain(key.decode("utf-8", "replace"), 1_000)
    ids = (None,) * 4 if trace is None else trace[:4]
    searched = [None if text is None else rows.plain(text, 1_000) for text in ids]
    payload = None if trace is None or trace[4] is None else trace[4].hex()
    schema = None if trace is None else trace.schema
    return [*facts, text, kafka_ms or 0, *searched, payload, schema]


def _intent(intent: Intent) -> list[Any]:
    unit = intent.unit
    names = [rows.plain(unit.message_id, 1_000), rows.plain(unit.interface, 100)]
    return [intent.endpoint, unit.record.offset, *names, intent.attempt, intent.circuit_version]
