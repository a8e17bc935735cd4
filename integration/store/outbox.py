"""Writing the outbox: few statements for all rows of a batch, strict queues' turns in id order."""

import json
from collections.abc import Sequence
from typing import Any, Final

from django.conf import settings
from django.db import OperationalError, connections
from psycopg.errors import LockNotAvailable
from psycopg.types.json import Jsonb

from integration.codec import encode_headers
from integration.handlers.failures import QueueLockTimeoutError
from integration.store.locks import LockClass
from integration.store.sessions import alias
from integration.values import Outgoing

# PostgreSQL takes 65,535 parameters with one statement, and a row has fourteen.
ROWS_A_STATEMENT: Final = 1_000
MARKS: Final = (
    "%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
    "clock_timestamp() + %s * interval '1 second', 'PENDING', clock_timestamp(), '', '', %s"
)
COLUMNS: Final = (
    "provider_id, shard, topic, partition, key, headers, value, kind, message_id, error, "
    "retry_no, strict_queue, not_before, state, created_at, dead_code, dead_text, "
    "timestamp_ms"
)
# What was set before comes back with it; the transaction's own setting, so that a rollback,
# also to a savepoint, undoes it.
_PATIENCE: Final = (
    "SELECT current_setting('lock_timeout'), set_config('lock_timeout', %s, true), "
    "(SELECT jsonb_object_agg(id, name) FROM integration_queue WHERE id = ANY(%s))"
)


def insert(rows: Sequence[Outgoing]) -> None:
    """Write rows in the current transaction, in order; there has to be one.

    Rows of strict queues wait for the queue's turn first, in id order: insert order is then
    commit order, and two batches cannot deadlock. Raises QueueLockTimeoutError where the turn is
    taken for longer than SLUICE_PUBLISH_LOCK_SECONDS, and Django's database errors.
    """
    if not rows:
        return
    strict = sorted({row.strict_queue for row in rows if row.strict_queue is not None})
    with connections[alias()].cursor() as cursor:
        if strict:
            _take_turns(cursor, strict)
        for start in range(0, len(rows), ROWS_A_STATEMENT):
            some = rows[start : start + ROWS_A_STATEMENT]
            values = [value for row in some for value in parameters(row)]
            marks = ", ".join([f"({MARKS})"] * len(some))
            # The columns and marks are constants of this module; every value is a parameter.
            cursor.execute(f"INSERT INTO integration_outboxrow ({COLUMNS}) VALUES {marks}", values)


def _take_turns(cursor: Any, queues: Sequence[int]) -> None:
    """Hold the turn of each queue until the transaction ends; nobody else inserts meanwhile.

    A lock of its own and not that of the queue's row: who starts, changes or removes a queue must
    not wait for whoever publishes to it.
    """
    seconds = float(settings.SLUICE_PUBLISH_LOCK_SECONDS)
    cursor.execute(_PATIENCE, [f"{max(1, round(seconds * 1_000))}ms", list(queues)])
    before, _, names = cursor.fetchone()
    for queue in queues:
        try:
            cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", [LockClass.STRICT_QUEUE, queue])
        except OperationalError as e:
            if isinstance(e.__cause__, LockNotAvailable):
                name = json.loads(names or "{}").get(str(queue), str(queue))
                raise QueueLockTimeoutError(name, seconds) from e
            raise
    cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])


def parameters(row: Outgoing) -> list[Any]:
    """Return the values of MARKS, in their order."""
    return [
        row.provider_id,
        0,
        row.topic,
        row.partition,
        row.key,
        Jsonb(encode_headers(row.headers)),
        row.value,
        row.kind,
        row.message_id,
        row.error,
        row.retry_no,
        row.strict_queue,
        row.delay_seconds,
        row.timestamp_ms,
    ]
