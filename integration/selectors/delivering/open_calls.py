"""Calls whose end is not known: those under way, and messages that may have arrived."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from integration.endpoints.declared import Properties
from integration.endpoints.properties import ENDPOINT_TYPES
from integration.models import Delivery, MessageError
from integration.policy.states import DeliveryState, ErrorState
from integration.selectors.failures.payloads import bytes_as_text
from integration.selectors.masking.calls import cover_calls
from integration.selectors.masking.covers import UNCOVERED, covers_of
from integration.selectors.masking.rules import masks
from integration.store.sessions import fetch_all

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
          AND e.partition = d.partition AND e."offset" = d."offset"
          AND e.state = '{ErrorState.HOLD}'))
      LIMIT {COUNT_CAP + 1}) few
    GROUP BY 1, 2, 3"""


@dataclass(slots=True)
class Open:
    """Calls of an endpoint that are under way, and messages that wait for a person, counted."""

    sending: int = 0
    unknown: int = 0


@dataclass(frozen=True, slots=True)
class Counts:
    """Open calls by endpoint and by queue."""

    by_endpoint: dict[int, Open] = field(default_factory=lambda: defaultdict(Open))
    by_queue: dict[int, Open] = field(default_factory=lambda: defaultdict(Open))

    def of_endpoint(self, pk: int) -> Open:
        return self.by_endpoint.get(pk, Open())

    def of_queue(self, pk: int) -> Open:
        return self.by_queue.get(pk, Open())


@dataclass(frozen=True, slots=True)
class Doubt:
    """A held message that may have arrived, with the call that tells nobody knows.

    `key` and `excerpt` are empty for people who may not see payloads.
    """

    call: Delivery
    error: MessageError
    key: str
    excerpt: str

    @property
    def id_header(self) -> str:
        """The header that carries the message id to the endpoint; empty where none does."""
        endpoint = self.call.endpoint
        properties_class = ENDPOINT_TYPES.get(endpoint.endpoint_type, Properties)
        name, default = properties_class.sends_id_by
        return str(endpoint.properties.get(name, default))


def counts() -> Counts:
    """Over all queues, in one query; counting stops above the cap."""
    total = Counts()
    for queue, endpoint, state, count in fetch_all(_COUNTS):
        for calls in (total.by_queue[queue], total.by_endpoint[endpoint]):
            if state == DeliveryState.SENDING:
                calls.sending += count
            else:
                calls.unknown += count
    return total


def doubts(queue_id: int, *, reveal: bool, most: int = SHOWN) -> list[Doubt]:
    """The oldest held messages of a queue that may have arrived, in two queries."""
    calls = list(
        Delivery.objects.filter(queue=queue_id, state=DeliveryState.UNKNOWN)
        .select_related("endpoint")
        .order_by("partition", "offset")[: most * 2]
    )
    if not calls:
        return []
    held, rules = _held(queue_id, calls), masks()
    found = covers_of([error.pk for error in held.values()], rules)
    cover_calls(calls, rules)
    in_doubt = []
    for call in calls:
        error = held.get((call.topic_uuid, call.partition, call.offset))
        if error is not None:
            cover = found.get(error.pk, UNCOVERED)
            error.text = cover.text(error.text)
            key = cover.key(bytes_as_text(error.key))
            shown = (key, call.excerpt) if reveal else ("", "")
            in_doubt.append(Doubt(call, error, *shown))
    return in_doubt[:most]


def _held(queue_id: int, calls: Sequence[Delivery]) -> dict[tuple[str, int, int], MessageError]:
    rows = MessageError.objects.filter(
        queue=queue_id,
        state=ErrorState.HOLD,
        partition__in={call.partition for call in calls},
        offset__in={call.offset for call in calls},
    ).only("version", "text", "key", "topic_uuid", "partition", "offset", "queue")
    return {(row.topic_uuid, row.partition, row.offset): row for row in rows}
