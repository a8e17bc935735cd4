"""Tracked messages as the engine leaves them, for tests of what people see."""

import zlib
from datetime import datetime, timedelta
from itertools import count
from typing import Any

from django.utils import timezone

from integration.models import MessageTrack, Queue

_numbers = count(1)


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
