"""The share of each partner of the sample, beside what was committed for it."""

from collections import Counter
from dataclasses import dataclass

from django.db.models import Count

from integration.models import Delivery, MessageError, OutboxRow, Queue
from integration.policy.states import (
    OPEN,
    DeliveryState,
    ErrorState,
    OutboxKind,
    OutboxState,
)
from integration.selectors.scope import Scope
from sample import names, partners


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One target: every message that was committed is in exactly one of the other figures.

    `partner` is what the partner counts itself, None when it cannot be asked.
    """

    queue: str
    system: str
    endpoint: str
    committed: int
    outbox: int
    kafka: int
    failed: int
    unknown: int
    delivered: int
    given_up: int
    partner: int | None
    note: str = ""

    @property
    def is_drained(self) -> bool:
        return not (self.outbox or self.kafka)

    @property
    def agrees(self) -> bool:
        return self.partner == self.delivered


def shares(scope: Scope) -> list[Share]:
    """The targets a person may know of, in the order of the channel."""
    targets = Queue.objects.filter(scope.within("system"), name__in=names.TARGETS)
    queues = {queue.name: queue for queue in targets}
    return [_share(queues[name]) for name in names.TARGETS if name in queues]


def _share(queue: Queue) -> Share:
    # The partner is asked first: what arrives meanwhile is then ours to explain, not its.
    counted, note = _partner(queue.name)
    states = Counter(
        dict(
            OutboxRow.objects.filter(
                provider=queue.provider_id, topic=queue.topic, kind=OutboxKind.MESSAGE
            )
            .order_by()
            .values_list("state")
            .annotate(count=Count("pk"))
        )
    )
    delivered = Delivery.objects.filter(queue=queue.pk, state=DeliveryState.DELIVERED).count()
    errors = MessageError.objects.filter(queue=queue).order_by()
    open_rows = errors.filter(state__in=[state.value for state in OPEN])
    unknown = open_rows.filter(code="DELIVERY_UNKNOWN").count()
    failed = open_rows.count()
    given_up = errors.filter(state=ErrorState.DELETED).count()
    outbox = states[OutboxState.PENDING] + states[OutboxState.STAMPED]
    committed = sum(states.values()) - states[OutboxState.CANCELLED]
    settled = delivered + failed + given_up + states[OutboxState.DEAD]
    ends = dict(zip(names.TARGETS, names.ENDPOINTS, strict=True))
    return Share(
        queue=queue.name,
        system=names.TARGETS[queue.name],
        endpoint=ends[queue.name],
        committed=committed,
        outbox=outbox,
        kafka=max(0, committed - outbox - settled),
        failed=failed - unknown,
        unknown=unknown,
        delivered=delivered,
        given_up=given_up,
        partner=counted,
        note=note,
    )


def _partner(queue: str) -> tuple[int | None, str]:
    if queue == names.TO_ARCHIVE:
        return partners.archive_count(), "files in its folder"
    if queue == names.TO_LEDGER:
        return partners.ledger_count(), "rows in its table"
    counts = partners.supplier_counts(partners.supplier_address())
    if counts is None:
        return None, "its server does not answer"
    note = (
        f"orders; {counts['repeated']} came again and were dropped, {counts['refused']} refused, "
        f"{counts['unavailable']} met it closed"
    )
    return counts["messages"], note
