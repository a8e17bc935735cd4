"""The whole way out of one queue that sends: outbox, Kafka, calls under way, what stands still."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from integration.models import MessageError, Queue
from integration.policy.states import OPEN
from integration.selectors.delivering import endpoints, open_calls
from integration.selectors.delivering.endpoints import EndpointRow
from integration.selectors.delivering.open_calls import COUNT_CAP, Doubt, Open
from integration.selectors.failures.advice import advice
from integration.selectors.failures.payloads import bytes_as_text

PARKED: Final = "PARKED"
FAILURES_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Failure:
    """One open failure: what happened and what to do. `key` is empty where it is not revealed."""

    id: UUID
    state: str
    code: str
    interface: str
    text: str
    at: datetime
    now: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """What the page of a queue that sends shows beside its position. Counts stop above a cap."""

    endpoints: tuple[EndpointRow, ...]
    open: Open
    parked: int
    doubts: tuple[Doubt, ...]
    failures: tuple[Failure, ...]


def outgoing(queue: Queue, *, reveal: bool) -> Outgoing:
    """In some ten queries, each bounded by what is open."""
    open_rows = MessageError.objects.filter(queue=queue, state__in=[s.value for s in OPEN])
    parked = open_rows.filter(code=PARKED).order_by()
    return Outgoing(
        endpoints=tuple(endpoints.of_queue(queue)),
        open=open_calls.counts().of_queue(queue.pk),
        parked=parked[: COUNT_CAP + 1].count(),
        doubts=tuple(open_calls.doubts(queue.pk, reveal=reveal)),
        failures=tuple(_failures(queue, reveal=reveal)),
    )


def _failures(queue: Queue, *, reveal: bool) -> list[Failure]:
    """Those that failed last; of parked ones only what they wait for is worth a line."""
    rows = (
        MessageError.objects.filter(queue=queue, state__in=[s.value for s in OPEN])
        .exclude(code=PARKED)
        .order_by("-last_failed_at")
        .only(
            "state", "code", "failure_class", "interface", "text", "last_failed_at", "queue", "key"
        )
    )
    system = queue.system.name if queue.system else ""
    return [
        Failure(
            row.pk,
            row.state,
            row.code,
            row.interface,
            row.text,
            row.last_failed_at,
            advice(
                row.code,
                row.failure_class,
                {"interface": row.interface, "system": system, "queue": queue.name},
            ),
            bytes_as_text(None if row.key is None else bytes(row.key)) if reveal else "",
        )
        for row in rows[:FAILURES_SHOWN]
    ]
