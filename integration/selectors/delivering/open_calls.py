"""Calls whose end is not known: those under way, and messages that may have arrived."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from integration.models import Delivery, MessageError
from integration.policy.states import DeliveryState, ErrorState
from integration.store.sessions import django_connection

COUNT_CAP: Final = 10_000
SHOWN: Final = 20
# By the partial index of calls whose end is not known. A released message has its way ahead of
# it: its old call stays UNKNOWN until the new one begins, but nobody has to decide any more.
_COUNTS: Final = f"""
    SELECT queue_id, endpoint_id, state, count(*) FROM (
      SELECT d.queue_id, d.endpoint_id, d.state FROM integration_delivery d
      WHERE d.state IN ('SENDING', 'UNKNOWN') AND (d.state = 'SENDING' OR EXISTS (
        SELECT 1 FROM integration_messageerror e
        WHERE e.queue_id = d.queue_id AND e.topic_uuid = d.topic_uuid
          AND e.partition = d.partition AND e."offset" = d."offset" AND e.state = 'HOLD'))
      LIMIT {COUNT_CAP + 1}) few
    GROUP BY 1, 2, 3"""


@dataclass(frozen=True, slots=True)
class Open:
    """How many calls of an endpoint are under way, and how many messages wait for a person."""

    sending: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Open calls by endpoint and by queue."""

    by_endpoint: Mapping[int, Open]
    by_queue: Mapping[int, Open]

    def of_endpoint(self, pk: int) -> Open:
        return self.by_endpoint.get(pk, Open())

    def of_queue(self, pk: int) -> Open:
        return self.by_queue.get(pk, Open())


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A held message that may have arrived: what happened, and what identifies it there.

    `key` and `excerpt` are empty for people who may not see payloads.
    """

    error_id: UUID
    version: int
    message_id: str
    interface: str
    endpoint: str
    endpoint_is_http: bool
    id_header: str
    key: str
    text: str
    sent_at: datetime
    took_ms: int | None
    excerpt: str


def counts() -> Counts:
    """Over all queues, in one query; counting stops above the cap."""
    endpoints: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    queues: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    with django_connection().cursor() as cursor:
        cursor.execute(_COUNTS)
        for queue, endpoint, state, count in cursor.fetchall():
            place = 0 if state == DeliveryState.SENDING else 1
            endpoints[endpoint][place] += count
            queues[queue][place] += count
    return Counts(
        by_endpoint={pk: Open(*found) for pk, found in endpoints.items()},
        by_queue={pk: Open(*found) for pk, found in queues.items()},
    )


def doubts(queue_id: int, *, reveal: bool, most: int = SHOWN) -> list[Doubt]:
    """The oldest held messages of a queue that may have arrived, in two queries."""
    calls = list(
        Delivery.objects.filter(queue=queue_id, state=DeliveryState.UNKNOWN)
        .select_related("endpoint")
        .order_by("partition", "offset")[: most * 2]
    )
    if not calls:
        return []
    held = _held(queue_id, calls)
    found = [
        _doubt(call, held[place], reveal=reveal)
        for call in calls
        if (place := (call.topic_uuid, call.partition, call.offset)) in held
    ]
    return found[:most]


def _held(queue_id: int, calls: Sequence[Delivery]) -> dict[tuple[str, int, int], MessageError]:
    rows = MessageError.objects.filter(
        queue=queue_id,
        state=ErrorState.HOLD,
        partition__in={call.partition for call in calls},
        offset__in={call.offset for call in calls},
    ).only("version", "text", "key", "topic_uuid", "partition", "offset", "queue")
    return {(row.topic_uuid, row.partition, row.offset): row for row in rows}


def _doubt(call: Delivery, error: MessageError, *, reveal: bool) -> Doubt:
    properties = call.endpoint.properties
    is_http = call.endpoint.handler_type == "http"
    return Doubt(
        error_id=error.pk,
        version=error.version,
        message_id=call.message_id,
        interface=call.interface,
        endpoint=call.endpoint.name,
        endpoint_is_http=is_http,
        id_header=str(properties.get("id_header", "Idempotency-Key")) if is_http else "",
        key=_text(error.key) if reveal else "",
        text=error.text,
        sent_at=call.started_at,
        took_ms=call.took_ms,
        excerpt=call.excerpt if reveal else "",
    )


def _text(key: bytes | memoryview | None) -> str:
    try:
        text = b"" if key is None else bytes(key)
        return text.decode()
    except UnicodeDecodeError:
        return ""
