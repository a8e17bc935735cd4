"""What Kafka tells of the database that is lost: how far its queues had read, what it had sent."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from django.db.models import Count, Max, Min, Q

from integration.codec import decode_headers
from integration.counting import so_many
from integration.delivery.relay import policy
from integration.kafka import admin, aftermath, looks
from integration.kafka.looks import TopicLook
from integration.kafka.source import mirror_group
from integration.models import (
    Delivery,
    MessageError,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    RelayLease,
    RestoreFinding,
)
from integration.policy.states import (
    OPEN,
    DeliveryState,
    ErrorState,
    OutboxState,
)
from integration.runs.relay import transactional_id
from integration.selectors.delivering import open_calls

Kind = RestoreFinding.Kind
WAITING: Final = (OutboxState.PENDING, OutboxState.STAMPED)
# Clocks of the database and of the senders differ; a record is looked for from so long before
# its row was written.
CLOCKS_APART: Final = timedelta(minutes=10)
ROWS_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What a person has to decide about; the fields of a RestoreFinding."""

    kind: str
    queue: int | None = None
    partition: int | None = None
    provider: int | None = None
    shard: int | None = None
    facts: dict[str, Any]


@dataclass(slots=True)
class Traces:
    """What was found. `watermarks` are relays' last batches that are ahead but meet no row."""

    findings: list[Trace] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    watermarks: dict[int, str] = field(default_factory=dict)


def of_provider(provider: Provider, found: Traces) -> None:
    """Add what one cluster tells. Raises BrokerUnreachableError, ProviderUnusableError."""
    queues = list(
        Queue.objects.filter(provider=provider, partitions__isnull=False)
        .distinct()
        .order_by("name")
    )
    known = looks.look(provider, [queue.topic for queue in queues])
    for queue in queues:
        _of_queue(provider, queue, known.get(queue.topic), found)
    for lease in RelayLease.objects.filter(provider=provider).order_by("shard"):
        _of_relay(provider, lease, found)


def _of_queue(provider: Provider, queue: Queue, look: TopicLook | None, found: Traces) -> None:
    places = list(queue.partitions.order_by("partition"))
    if look is None:
        found.remarks.append(
            f"{queue.name}: its topic {queue.topic} could not be looked at. If it is gone, the "
            "queue stops by itself and asks."
        )
        return
    here = [place for place in places if place.topic_uuid == look.facts.topic_uuid]
    if len(here) < len(places):
        found.remarks.append(
            f"{queue.name}: its topic {queue.topic} was deleted and created again since. The "
            "queue stops by itself and asks where to go on."
        )
    numbers = [place.partition for place in here]
    mirrored = admin.group_offsets(provider, mirror_group(queue.name), queue.topic, numbers)
    for place in here:
        reached = mirrored.get(place.partition)
        if reached is not None and reached > place.next_offset:
            found.findings.append(_read_further(queue, place, look, reached))


def _read_further(queue: Queue, place: QueuePartition, look: TopicLook, reached: int) -> Trace:
    low = look.facts.low.get(place.partition, 0)
    beyond = MessageError.objects.filter(
        queue=queue,
        topic_uuid=place.topic_uuid,
        partition=place.partition,
        offset__gte=place.next_offset,
        state__in=OPEN,
    )
    return Trace(
        kind=Kind.POSITION,
        queue=queue.pk,
        partition=place.partition,
        facts={
            "name": queue.name,
            "topic": queue.topic,
            "topic_uuid": place.topic_uuid,
            "from": place.next_offset,
            "to": reached,
            "end": look.facts.high.get(place.partition, reached),
            "expired": max(0, min(low, reached) - place.next_offset),
            "failures": beyond.count(),
            "delivers": delivers(queue),
        },
    )


def delivers(queue: Queue) -> bool:
    """Whether messages of this queue are delivered to an endpoint."""
    is_outbound = queue.direction == Queue.Direction.OUTBOUND
    return is_outbound and (
        queue.endpoint_id is not None or queue.targets.filter(endpoint__isnull=False).exists()
    )


def _of_relay(provider: Provider, lease: RelayLease, found: Traces) -> None:
    last = aftermath.last_batch(provider, transactional_id(provider.pk, lease.shard))
    rows = OutboxRow.objects.filter(
        provider=provider, shard=lease.shard, state__in=WAITING
    ).order_by("pk")
    left = rows.filter(state=OutboxState.STAMPED).values_list("batch", flat=True).first()
    stamped = lease.batch or left
    # Never noted is not the same as nothing sent: after a restore it has to be looked at.
    if not policy.is_ahead(last, known=lease.watermark or "", stamped=stamped):
        return
    facts = rows.aggregate(oldest=Min("created_at"), first=Min("pk"), last=Max("pk"))
    if facts["oldest"] is None:
        found.watermarks[lease.pk] = last or ""
        found.remarks.append(
            f"{provider.name}: messages were sent since the backup; none of those that wait "
            "here is among them."
        )
        return
    sent = _sent(provider, lease)
    found.findings.append(
        Trace(
            kind=Kind.SENT,
            provider=provider.pk,
            shard=lease.shard,
            facts={
                "name": provider.name,
                "watermark": last,
                "waiting": rows.count(),
                "sent": sent,
                "first": facts["first"],
                "last": facts["last"],
                "oldest": facts["oldest"].isoformat(),
                "topics": sorted(set(rows.order_by().values_list("topic", flat=True))),
            },
        )
    )


def _sent(provider: Provider, lease: RelayLease) -> list[int]:
    """The waiting rows whose very record is in Kafka: found by what it contains, never by age."""
    rows = OutboxRow.objects.filter(provider=provider, shard=lease.shard, state__in=WAITING)
    since = dict(rows.values_list("topic").annotate(Min("created_at")).order_by())
    wanted: dict[bytes, list[int]] = {}
    for row in rows.order_by("pk").iterator(ROWS_AT_ONCE):
        headers = decode_headers(row.headers)
        digest = aftermath.digest_of(row.topic, _bytes(row.key), _bytes(row.value), headers)
        wanted.setdefault(digest, []).append(row.pk)
    return sorted(_met(provider, {t: at - CLOCKS_APART for t, at in since.items()}, wanted))


def _met(
    provider: Provider, topics: dict[str, Any], wanted: dict[bytes, list[int]]
) -> Iterator[int]:
    """Rows with equal contents are met in their order, once for each record."""
    for digest in aftermath.written_since(provider, topics):
        rows = wanted.get(digest)
        if rows:
            yield rows.pop(0)
            if not rows:
                del wanted[digest]
        if not wanted:
            return


def _bytes(content: bytes | memoryview | None) -> bytes | None:
    return None if content is None else bytes(content)


def waiting_deliveries(found: Traces) -> None:
    """Add deliveries that were to be made or under way: nobody can tell whether they happened."""
    due = Count("errors", filter=Q(errors__state__in=(ErrorState.RETRY, ErrorState.READY)))
    calls = _calls()
    outbound = Queue.objects.filter(direction=Queue.Direction.OUTBOUND).annotate(due=due)
    for queue in outbound.filter(Q(due__gt=0) | Q(pk__in=calls)).order_by("name"):
        if not delivers(queue):
            continue
        repeated, held = calls.get(queue.pk, (0, 0))
        if held:
            found.remarks.append(
                f"{queue.name}: {so_many(held, 'call was', 'calls were')} under way at the backup, "
                "to an endpoint that does not drop repeats. What was being sent is put on hold, "
                "for a person who asks the partner."
            )
        if queue.due or repeated:
            facts = {"name": queue.name, "waiting": queue.due, "calls": repeated}
            found.findings.append(Trace(kind=Kind.DELIVERY, queue=queue.pk, facts=facts))


def _calls() -> dict[int, tuple[int, int]]:
    """Calls that were under way, by queue: those that would be made again, and those held."""
    drops = Q(endpoint__idempotent=True)
    under_way = Delivery.objects.filter(state=DeliveryState.SENDING).order_by().values("queue")
    counted = under_way.annotate(
        repeated=Count("pk", filter=drops), held=Count("pk", filter=~drops)
    )
    return {
        queue: (repeated, held)
        for queue, repeated, held in counted.values_list("queue", "repeated", "held")
    }


def unsettled_calls(found: Traces) -> None:
    """Add that people may have said before what became of a message that may have arrived."""
    count = sum(one.unknown for one in open_calls.counts().by_queue.values())
    if count:
        found.remarks.append(
            f"{so_many(count, 'held message', 'held messages')} may have arrived, as the page "
            "Delivery shows. What people said about that since the backup is forgotten: ask the "
            "partner again."
        )


def in_doubt(found: Traces) -> None:
    """Add what people decide on other pages anyway."""
    count = RelayLease.objects.filter(in_doubt_since__isnull=False).count()
    if count:
        found.remarks.append(
            f"{so_many(count, 'relay is', 'relays are')} in doubt about a batch: that is decided "
            "on the page Outbox."
        )


def of_silent(provider: Provider, text: str) -> list[Trace]:
    """What is held of a cluster that does not answer: one finding a partition, one a relay."""
    places = QueuePartition.objects.filter(queue__provider=provider).select_related("queue")
    read = [
        Trace(
            kind=Kind.POSITION,
            queue=place.queue_id,
            partition=place.partition,
            facts={
                "name": place.queue.name,
                "topic": place.queue.topic,
                "from": place.next_offset,
                "problem": text,
                "delivers": delivers(place.queue),
            },
        )
        for place in places.order_by("queue__name", "partition")
    ]
    sent = [
        Trace(
            kind=Kind.SENT,
            provider=provider.pk,
            shard=lease.shard,
            facts={"name": provider.name, "problem": text},
        )
        for lease in RelayLease.objects.filter(provider=provider)
    ]
    return [*read, *sent]
