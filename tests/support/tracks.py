"""Tracked messages as the engine leaves them, for tests of what people see."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from django.db import connection
from django.utils import timezone

from integration.models import MessageTrack, Queue
from integration.store import track_days

_numbers = count(1)


@contextmanager
def tracked_since_yesterday() -> Iterator[None]:
    """Tracking that goes back to yesterday: of the first hour of its oldest day too little is known
    to call a message lost, and tests run at any hour.
    """
    midnight = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    begin = midnight - timedelta(days=1)
    table = track_days.named(begin.date())
    with connection.cursor() as cursor:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {table} PARTITION OF integration_messagetrack "
            f"FOR VALUES FROM ('{begin.isoformat()}') TO ('{midnight.isoformat()}')"
        )
    yield
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {table}")


def a_track_row(queue: Queue, *, ago: timedelta = timedelta(minutes=5), **fields: Any) -> Any:
    """One ending: applied five minutes ago, half a second after it was written to Kafka."""
    number = next(_numbers)
    at: datetime = fields.pop("at", timezone.now() - ago)
    values: dict[str, Any] = {
        "partition": 0,
        "offset": number,
        "arrival_batch": number,
        "message_id": f"message-{number}",
        "interface": "MXASSET",
        "ended": "APPLIED",
        "at": at,
        "key": "",
        "kafka_ms": int(at.timestamp() * 1_000) - 500,
    }
    if "payload" in fields:
        fields["payload"] = zlib.compress(fields["payload"], 1)
    return MessageTrack.objects.create(queue=queue, **(values | fields))
