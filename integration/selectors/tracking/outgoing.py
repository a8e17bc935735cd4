"""The outgoing rows of a message: what is known of it before anybody has read it.

Nothing of that is written for tracking's sake: the outbox has it as long as cleanup leaves it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Q

from integration.codec import decode_headers
from integration.delivery.tracked import CAUSE
from integration.handlers.outgoing import INTERFACE
from integration.models import ConfigurationChange, OutboxRow, Queue, Receipt
from integration.policy.states import OutboxState
from integration.selectors.tracking.rows import Queues
from integration.store.sessions import alias, fetch_all

RELATED: Final = 20
# Outgoing rows have no index by message, which each publish() would have to write: so many of the
# newest are looked through, and so many of those that wait, by the relay's own index.
LOOKED_THROUGH: Final = 200_000
_BY_MESSAGE: Final = f"""
(SELECT n.id FROM (SELECT id, message_id FROM integration_outboxrow
  ORDER BY id DESC LIMIT {LOOKED_THROUGH}) n WHERE n.message_id = %(id)s LIMIT {RELATED})
UNION
(SELECT w.id FROM (SELECT id, message_id FROM integration_outboxrow
  WHERE state = '{OutboxState.PENDING}' AND not_before IS NULL
  ORDER BY provider_id, shard, not_before, id LIMIT {LOOKED_THROUGH}) w
  WHERE w.message_id = %(id)s LIMIT {RELATED})
"""

STANDS: Final[Mapping[str, str]] = {
    OutboxState.PENDING: "It is committed and waits in the outbox for the relay. Its outgoing "
    "row shows what it waits for.",
    OutboxState.STAMPED: "The relay is sending it to Kafka, or nobody knows whether Kafka has "
    "it: its outgoing row says which.",
    OutboxState.PUBLISHED: "It is in Kafka. No try of it is known yet: its queue has not come "
    "to it, or the partner reads it from there.",
    OutboxState.DEAD: "Kafka refused it. A person decides, on the page of its outgoing row.",
    OutboxState.CANCELLED: "It is not sent: a person gave it up.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """The row of the outbox that carried it, or will. `queues` are those of its topic."""

    id: int
    state: str
    created_at: datetime
    published_at: datetime | None
    interface: str
    caused_by: str
    queues: tuple[str, ...]

    @property
    def stands(self) -> str:
        """The sentence on where it is, while nothing is known of any try."""
        return STANDS.get(self.state, "")


def outgoing(
    message_id: str,
    queues: Queues,
    receipts: Sequence[Receipt] = (),
    tests: Sequence[ConfigurationChange] = (),
) -> list[Outgoing]:
    """Read by their numbers where a receipt or a test knows them, else look through the outbox.

    Only those for topics of these queues.
    """
    outbox = OutboxRow.objects.defer("value").filter(message_id=message_id)
    if receipts or tests:
        outbox = outbox.filter(_numbered(receipts, tests))
    else:
        outbox = outbox.filter(pk__in=_looked_up(message_id))
    rows = list(outbox.order_by("pk")[:RELATED])
    topics = _topics(queues) if rows else {}
    is_numbered = bool(receipts or tests)
    return [
        _outgoing(row, topics.get((row.provider_id, row.topic), ()))
        for row in rows
        if is_numbered or (row.provider_id, row.topic) in topics
    ]


def _numbered(receipts: Sequence[Receipt], tests: Sequence[ConfigurationChange]) -> Q:
    between = Q(pk=None)
    for receipt in receipts:
        if receipt.first_row is not None and receipt.last_row is not None:
            between |= Q(pk__gte=receipt.first_row, pk__lte=receipt.last_row)
    for test in tests:
        between |= Q(pk=(test.after or {}).get("outgoing_row"))
    return between


def _looked_up(message_id: str) -> list[int]:
    return [number for (number,) in fetch_all(_BY_MESSAGE, {"id": message_id})]


def _topics(queues: Queues) -> dict[tuple[int, str], tuple[str, ...]]:
    rows: Any = Queue.objects.using(alias()).filter(pk__in=queues).order_by("name")
    topics: dict[tuple[int, str], tuple[str, ...]] = {}
    for name, provider, topic in rows.values_list("name", "provider_id", "topic"):
        topics[provider, topic] = (*topics.get((provider, topic), ()), name)
    return topics


def _outgoing(row: OutboxRow, queues: tuple[str, ...]) -> Outgoing:
    headers = {name: value for name, value in decode_headers(row.headers) if value is not None}
    return Outgoing(
        id=row.pk,
        state=row.state,
        created_at=row.created_at,
        published_at=row.published_at,
        interface=headers.get(INTERFACE, b"").decode("utf-8", "replace"),
        caused_by=headers.get(CAUSE, b"").decode("utf-8", "replace"),
        queues=queues,
    )
