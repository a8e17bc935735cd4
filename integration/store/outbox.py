"""Writing the outbox: one statement for all rows of a batch, strict queues locked in id order."""

from collections.abc import Sequence
from typing import Any, Final

from django.db import connections
from psycopg.types.json import Jsonb

from integration.codec import encode_headers
from integration.delivery.values import Outgoing
from integration.store.sessions import alias

ROW: Final = (
    "(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, "
    "clock_timestamp() + %s * interval '1 second', 'PENDING', clock_timestamp(), '', '')"
)
COLUMNS: Final = (
    "provider_id, shard, topic, partition, key, headers, value, kind, message_id, error, "
    "retry_no, strict_queue, not_before, state, created_at, dead_code, dead_text"
)


def insert(rows: Sequence[Outgoing]) -> None:
    """Write rows in the current transaction, in order. Raises Django's database errors.

    Rows of strict queues lock the queue first, in id order: insert order is then commit order,
    and two batches cannot deadlock.
    """
    if not rows:
        return
    strict = sorted({row.strict_queue for row in rows if row.strict_queue is not None})
    with connections[alias()].cursor() as cursor:
        if strict:
            cursor.execute(
                "SELECT id FROM integration_queue WHERE id = ANY(%s) ORDER BY id FOR UPDATE",
                [strict],
            )
        values: list[Any] = []
        for row in rows:
            values += _values(row)
        marks = ", ".join([ROW] * len(rows))
        # The columns and marks are constants of this module; every value is a parameter.
        cursor.execute(f"INSERT INTO integration_outboxrow ({COLUMNS}) VALUES {marks}", values)  # noqa: S608


def _values(row: Outgoing) -> list[Any]:
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
    ]
