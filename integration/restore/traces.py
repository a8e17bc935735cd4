"""Traces in Kafka of the database that is lost: how far its queues had read, what it had sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from django.db.models import Count, Max, Min, Q, QuerySet

from integration.codec import decode_headers
from integration.counting import listed, so_many
from integration.delivery.added import Addition
from integration.delivery.relay import policy
from integration.kafka import admin, aftermath, looks
from integration.kafka.errors import BrokerUnreachableError, ProviderUnusableError
from integration.kafka.looks import TopicLook
from integration.kafka.source import group_of
from integration.models import (
    Delivery,
    Endpoint,
    MessageError,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    RelayLease,
    RestoreFinding,
)
from integration.policy.relay_shares import MOST_SHARDS
from integration.policy.states import (
    OPEN,
    DeliveryState,
    ErrorState,
    OutboxState,
)
from integration.restore import former_cluster
from integration.runs.relay import transactional_id
from integration.selectors.delivering import open_calls
from integration.selectors.delivering.senders import SENDS, sends
from integration.store.positions import add_new_partitions

# Clocks of database and senders differ; a record is looked for from so long before its row.
CLOCKS_APART: Final = timedelta(minutes=10)
# With what each contains.
ROWS_AT_ONCE: Final = 50
NAMES_TOLD: Final = 20


@dataclass(slots=True)
class Traces:
    """Traces that a person has to decide about, not stored yet, and what is good to know.

    `watermarks` are relays' last batches that are ahead but meet no row.
    """

    findings: list[RestoreFinding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    watermarks: dict[int, str] = field(default_factory=dict)

    def add(self, other: "Traces") -> None:
        """Take in what was found elsewhere."""
        self.findings += other.findings
        self.remarks += other.remarks
        self.watermarks |= other.watermarks


def find(*, is_certain: bool, with_silent: bool) -> Traces:
    """Ask every cluster, and the database for what leaves no trace in any.

    Of a cluster that does not answer, also about a single topic, there are findings that say so;
    without `with_silent` BrokerUnreachableError and ProviderUnusableError are raised instead. Where
    it is not certain that the database went back, deliveries are only in doubt beside another
    trace.
    """
    traces = Traces()
    for provider in Provider.objects.filter(kind=Provider.Kind.KAFKA).order_by("name"):
        found = Traces()
        try:
            _of_provider(provider, found, is_certain=is_certain)
        except (BrokerUnreachableError, ProviderUnusableError) as e:
            if not with_silent:
                raise
            # What it told before it fell silent is told by these again.
            found = _of_silent(provider, str(e))
        traces.add(found)
    _accepted(traces)
    if is_certain or traces.findings or traces.watermarks:
        _waiting_deliveries(traces)
        _unsettled_calls(traces)
    _in_doubt(traces)
    return traces


def _of_provider(provider: Provider, traces: Traces, *, is_certain: bool) -> None:
    queues = list(
        Queue.objects.filter(provider=provider, partitions__isnull=False)
        .distinct()
        .order_by("name")
    )
    by_topic = looks.look(provider, [queue.topic for queue in queues])
    for queue in queues:
        # Asked before anything is noted: what is just moving may hold a trace.
        if queue.topic not in by_topic:
            raise BrokerUnreachableError(provider.name, f"{queue.topic} is moving between brokers")
    for queue in queues:
        _of_queue(provider, queue, by_topic[queue.topic], traces)
    _of_relay(provider, traces, is_certain=is_certain)


def _of_queue(provider: Provider, queue: Queue, look: TopicLook | None, traces: Traces) -> None:
    if look is None:
        traces.remarks.append(
            f"{queue.name}: its topic {queue.topic} is not there any more. The queue stops by "
            "itself and asks."
        )
        return
    # What the topic got since the backup was read from its beginning, and would be again.
    if add_new_partitions(queue, look.facts) is Addition.LATER:
        traces.remarks.append(
            f"{queue.name}: its topic {queue.topic} got partitions back that it had before, and "
            "the queue is at work on failures of them. They are read from their beginning later."
        )
    places = list(queue.partitions.order_by("partition"))
    here = [place for place in places if place.topic_uuid == look.facts.topic_uuid]
    if len(here) < len(places):
        traces.remarks.append(
            f"{queue.name}: its topic {queue.topic} was deleted and created again since. The "
            "queue stops by itself and asks where to continue."
        )
    numbers = [place.partition for place in here]
    committed = admin.group_offsets(provider, group_of(queue), queue.topic, numbers)
    for place in here:
        reached = committed.get(place.partition)
        if reached is not None and reached > place.next_offset:
            traces.findings.append(_read_further(queue, place, look, reached))


def _read_further(
    queue: Queue, place: QueuePartition, look: TopicLook, reached: int
) -> RestoreFinding:
    low = look.facts.low.get(place.partition, 0)
    beyond = MessageError.objects.filter(
        queue=queue,
        topic_uuid=place.topic_uuid,
        partition=place.partition,
        offset__gte=place.next_offset,
        state__in=OPEN,
    )
    facts = {
        "topic_uuid": place.topic_uuid,
        "to": reached,
        "end": look.facts.high.get(place.partition, reached),
        "expired": max(0, min(low, reached) - place.next_offset),
        "failures": beyond.count(),
    }
    return _position(queue, place, facts)


def _position(queue: Queue, place: QueuePartition, facts: Mapping[str, object]) -> RestoreFinding:
    return RestoreFinding(
        kind=RestoreFinding.Kind.POSITION,
        queue=queue.pk,
        partition=place.partition,
        facts={
            "name": queue.name,
            "topic": queue.topic,
            "from": place.next_offset,
            "delivers": sends(queue),
            **facts,
        },
    )


def _of_relay(provider: Provider, traces: Traces, *, is_certain: bool) -> None:
    """Look at all shards together: which topics each has had since the backup, nobody knows.

    Where the provider was moved, the cluster before may have what waits, and this one need not tell
    of it. A shard that is in doubt keeps what it knows of that one until people have decided, which
    alone makes no server that went on from an earlier state one that lost something.

    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    leases = {lease.shard: lease for lease in RelayLease.objects.filter(provider=provider)}
    ahead = _ahead(provider, leases) if leases else {}
    moved = former_cluster.moved(provider)
    if not (ahead or is_certain):
        moved = [lease for lease in moved if lease.in_doubt_since is None]
    if not (ahead or moved):
        return
    former = former_cluster.with_batch(moved)
    _tell_former(provider, former, traces)
    rows = former_cluster.others(provider.pk, former).order_by("pk")
    facts = rows.aggregate(oldest=Min("created_at"), first=Min("pk"), last=Max("pk"))
    if facts["oldest"] is None:
        traces.watermarks |= {leases[n].pk: last for n, last in ahead.items() if n in leases}
        if ahead:
            traces.remarks.append(
                f"{provider.name}: messages were sent since the backup; none of "
                f"{'the others' if former else 'those'} that wait here is among them."
            )
        return
    facts |= {
        "watermarks": ahead,
        "waiting": rows.count(),
        "sent": _sent(provider, rows),
        "former_cluster": former,
        "has_moved": bool(moved),
        "bootstrap_servers": provider.bootstrap_servers,
        "oldest": facts["oldest"].isoformat(),
        "topics": sorted(set(rows.order_by().values_list("topic", flat=True))),
    }
    traces.findings.append(_relay(provider, facts))


def _ahead(provider: Provider, leases: Mapping[int, RelayLease]) -> dict[int, str]:
    """The last batches in Kafka that this database never sent, by shard.

    Also of shards that it does not know, as there were fewer when the backup was made; they begin
    with the lowest number, so the first that Kafka does not know either is the last to be asked.
    """
    rows = OutboxRow.objects.filter(provider=provider, state=OutboxState.STAMPED).order_by("pk")
    left = {str(batch) for batch in rows.values_list("batch", flat=True)}
    ahead = {}
    for shard in range(MOST_SHARDS):
        lease = leases.get(shard)
        last = aftermath.last_batch(provider, transactional_id(provider.pk, shard))
        if lease is None and last is None:
            break
        # Never noted is not the same as nothing sent: after a restore it has to be looked at.
        known, stamped, before = "", None, ""
        if lease is not None:
            known, stamped, before = lease.watermark or "", lease.batch, lease.watermark_before
        if policy.has_lost_mark(last, known=known, before=before):
            continue
        if policy.is_ahead(last, known=known, stamped=stamped) and last not in left:
            ahead[shard] = last or ""
    return ahead


def _tell_former(provider: Provider, shards: list[int], traces: Traces) -> None:
    """Add that a former cluster may have these shards' batches."""
    count = len(former_cluster.rows(provider.pk, shards))
    if count:
        traces.remarks.append(
            f"{provider.name}: {so_many(count, 'message was', 'messages were')} about to be sent, "
            "perhaps to another cluster than the provider names now. What is decided here neither "
            "sends nor marks that batch; unless the relay finds that it is the same cluster, it "
            "asks about it on the page Outbox."
        )


def _relay(provider: Provider, facts: Mapping[str, object]) -> RestoreFinding:
    return RestoreFinding(
        kind=RestoreFinding.Kind.SENT,
        provider=provider.pk,
        shard=0,
        facts={"name": provider.name, **facts},
    )


def _sent(provider: Provider, rows: QuerySet[OutboxRow]) -> list[int]:
    """Those rows whose very record is in Kafka: found by what it contains, never by age."""
    since = dict(rows.values_list("topic").annotate(Min("created_at")).order_by())
    digests: dict[bytes, list[int]] = {}
    for row in rows.order_by("pk").iterator(ROWS_AT_ONCE):
        headers = decode_headers(row.headers)
        digest = aftermath.digest_of(row.topic, _bytes(row.key), _bytes(row.value), headers)
        digests.setdefault(digest, []).append(row.pk)
    topics = {t: at - CLOCKS_APART for t, at in since.items()}
    return sorted(aftermath.met(aftermath.written_since(provider, topics), digests))


def _bytes(content: bytes | memoryview | None) -> bytes | None:
    return None if content is None else bytes(content)


def _accepted(traces: Traces) -> None:
    """Add that JMS brokers do not keep what the lost database had taken over from them."""
    at_jms = Queue.objects.filter(provider__kind=Provider.Kind.JMS, partitions__isnull=False)
    names = list(at_jms.order_by("name").values_list("name", flat=True).distinct())
    if names:
        traces.remarks.append(
            f"{listed(names, NAMES_TOLD)}: what was read from a JMS broker since the backup is not "
            "there any more, nor here. Have its senders send it again."
        )


UNSENT: Final = (ErrorState.RETRY, ErrorState.READY, ErrorState.PARKED)


def _waiting_deliveries(traces: Traces) -> None:
    """Add deliveries that were to be made or under way: nobody can tell whether they happened."""
    due = Count("errors", filter=Q(errors__state__in=UNSENT))
    calls = _calls()
    senders = Queue.objects.filter(SENDS).annotate(due=due)
    for queue in senders.filter(Q(due__gt=0) | Q(pk__in=calls)).order_by("name"):
        repeated, held = calls.get(queue.pk, (0, 0))
        if held:
            traces.remarks.append(
                f"{queue.name}: {so_many(held, 'call was', 'calls were')} under way at the backup, "
                "to an endpoint that may not recognize a repeat. What was being sent is put on "
                "hold, for a person who asks the partner."
            )
        if queue.due or repeated:
            facts = {"name": queue.name, "waiting": queue.due, "calls": repeated}
            kind = RestoreFinding.Kind.DELIVERY
            traces.findings.append(RestoreFinding(kind=kind, queue=queue.pk, facts=facts))


def _calls() -> dict[int, tuple[int, int]]:
    """Calls that were under way, by queue: those that would be made again, and those held."""
    droppers = list(Endpoint.objects.filter(idempotent=True))
    always = [endpoint.pk for endpoint in droppers if not endpoint.depends_on_company]
    in_order = Q(queue__kind=Queue.Kind.SEQUENTIAL, endpoint__idempotent=True)
    drops = Q(endpoint__in=always) | in_order
    under_way = Delivery.objects.filter(state=DeliveryState.SENDING).order_by().values("queue")
    counted = under_way.annotate(
        repeated=Count("pk", filter=drops), held=Count("pk", filter=~drops)
    )
    return {
        queue: (repeated, held)
        for queue, repeated, held in counted.values_list("queue", "repeated", "held")
    }


def _unsettled_calls(traces: Traces) -> None:
    """Add that people may have said before what became of a message that may have arrived."""
    count = sum(calls.unknown for calls in open_calls.counts().by_queue.values())
    if count:
        traces.remarks.append(
            f"{so_many(count, 'held message', 'held messages')} may have arrived, as the page "
            "Delivery shows. What people said about that since the backup is forgotten: ask the "
            "partner again."
        )


def _in_doubt(traces: Traces) -> None:
    """Add what people decide on other pages anyway."""
    count = RelayLease.objects.filter(in_doubt_since__isnull=False).count()
    if count:
        traces.remarks.append(
            f"{so_many(count, 'relay is', 'relays are')} in doubt about a batch: that is decided "
            "on the page Outbox."
        )


def _of_silent(provider: Provider, text: str) -> Traces:
    """Tell what is held of a silent cluster: one finding a partition, one for the relay."""
    places = QueuePartition.objects.filter(queue__provider=provider).select_related("queue")
    in_order = places.order_by("queue__name", "partition")
    traces = Traces([_position(place.queue, place, {"problem": text}) for place in in_order])
    if RelayLease.objects.filter(provider=provider).exists():
        former = former_cluster.with_batch(former_cluster.moved(provider, is_silent=True))
        _tell_former(provider, former, traces)
        facts = {"problem": text, "former_cluster": former}
        traces.findings.append(_relay(provider, facts))
    return traces
