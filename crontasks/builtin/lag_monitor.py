"""Lag monitor: writes down what the brokers say about every queue's topic, for people."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final

from django.db.models import F, Q

from crontasks.builtin import jms_depth, resting, retention_sync
from crontasks.definitions import crontask
from crontasks.models import CronInstance
from crontasks.models.notice import ABOUT_PROVIDERS, PROVIDER, NoticeKind
from crontasks.notices import book
from crontasks.notices.condition import Condition
from crontasks.outcome import Context, Outcome, RunState
from crontasks.parameters import option
from crontasks.running import starts
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.kafka import looks
from integration.kafka.looks import TopicLook
from integration.kafka.source import first_waiting
from integration.models import Provider, Queue, QueuePartition
from integration.policy.rescue import first_outside
from integration.policy.states import PartitionState
from integration.runs import branches
from integration.selectors.delivering.senders import AT_KAFKA, RUNS
from integration.store import stable_ends, track_days
from integration.store.partition_state import not_held
from integration.store.sessions import django_connection, execute
from integration.values import TopicFacts

# What is told apart of a thousand rows at a time.
_COMPARED: Final = (
    *("queue_id", "partition", "topic_uuid", "next_offset", "state", "state_code"),
    *("low_watermark", "high_watermark", "oldest_waiting_at"),
)
# A two-phase commit in doubt holds its partition's row, for days if nobody decides. What is seen of
# the others is written all the same.
_SEEN: Final = f"""
    UPDATE integration_queuepartition SET seen_at = clock_timestamp()
    WHERE id IN ({not_held("id = ANY(%s)")})"""
_WRITE: Final = f"""
    UPDATE integration_queuepartition SET low_watermark = %s, high_watermark = %s,
        seen_at = clock_timestamp()
    WHERE id IN ({not_held("queue_id = %s AND partition = %s AND topic_uuid = %s")})"""
_OLDEST: Final = f"""
    UPDATE integration_queuepartition SET oldest_waiting_at = %s
    WHERE id IN ({not_held("id = %s")})"""


@dataclass(frozen=True)
class LagParameters:
    """The age from which on an open transaction counts as one that hangs."""

    # Seen within 15 s and noted at the second look after that, also where a look comes a little
    # early: a person knows within a minute. Applications that commit more rarely than every 30 s,
    # as some stream processors do, need a longer limit.
    transaction_seconds: int = option(
        25,
        "How long an open transaction may hold back a topic before it is reported, in seconds.",
        least=1,
        most=86_400,
    )


@crontask("lag_monitor", title="Lag monitor", parameters=LagParameters, is_noticed=True)
class LagMonitor:
    """Asks every Kafka cluster for the watermarks and retention of its queues' topics.

    So the console shows the lag of queues that nobody reads at the moment, too, and knows when
    what waits expires. One client and five requests a cluster, however many queues. At JMS brokers
    it counts what waits. A broker that does not answer makes the run FAILED; it decides nothing.
    Beside that it sees to it that tracking has its days ahead, that its search index knows the
    newest rows, and that two-phase commits which a run left are settled, whether or not their queue
    runs.
    """

    def run(self, parameters: LagParameters, context: Context) -> Outcome:
        away: list[Condition] = []
        follows = _retention_follows()
        queues = Queue.objects.filter(RUNS, AT_KAFKA, enabled=True)
        ids = queues.order_by("provider_id").values_list("provider_id", "pk")
        by_provider = groupby(list(ids), itemgetter(0))
        mine = {key: [id_ for _, id_ in each] for key, each in by_provider}
        for provider in Provider.objects.filter(pk__in=mine).order_by("pk"):
            if context.should_stop():
                break
            away += _look(
                provider,
                mine[provider.pk],
                context,
                follows=follows,
                patience=parameters.transaction_seconds,
            )
        away += jms_depth.look(context)
        if not context.should_stop():
            # Of those that were not asked any more nothing is known: their notices stay.
            book.keep(away, {NoticeKind.OUTAGE}, ABOUT_PROVIDERS)
        if in_doubt := branches.settle_all():
            context.say(f"{so_many(in_doubt, 'commit')} in doubt: decide on the outbox page.")
        track_days.make_ahead()
        track_days.summarize()
        state = RunState.FAILED if away else RunState.DONE
        return Outcome(counts={"unreachable": len(away)}, state=state)


def _look(
    provider: Provider, ids: Sequence[int], context: Context, *, follows: bool, patience: int
) -> Iterable[Condition]:
    """Write down what one provider says; the condition it is in if it says nothing."""
    try:
        queues = _to_ask_about(provider, ids)
        facts = looks.look(provider, [queue.topic for queue in queues])
        there = [(queue, look) for queue in queues if (look := facts.get(queue.topic)) is not None]
        _start_where_gone(queue for queue in queues if facts.get(queue.topic, queue) is None)
        rows_of = _rows_of(queue for queue, _ in there)
        _start_where_grown(there, rows_of)
        _start_where_made_anew(there, rows_of)
        news = _with_news(there, rows_of, follows=follows)
        _note_transactions(provider, news, patience)
        for queue, look in news:
            _write_down(queue, look, context.actor, follows=follows)
    except IntegrationError as e:
        reason = f"{e.code}: {e.sentence}"
        context.say(f"{provider.name}: {reason}")
        return [Condition(NoticeKind.OUTAGE, f"{PROVIDER}{provider.name}", reason)]
    return []


def _to_ask_about(provider: Provider, ids: Sequence[int]) -> list[Queue]:
    """Note that idle queues are seen, as the watch sees them; return those to be asked about."""
    left = resting.left_alone(ids)
    execute(_SEEN, (list(left.rows),))
    queues = list(Queue.objects.filter(pk__in=set(ids) - set(left.queues)).order_by("name"))
    for queue in queues:
        queue.provider = provider
    return queues


def _start_where_gone(queues: Iterable[Queue]) -> None:
    """Let a run find out, and say, that the topic of an idle queue is not there any more."""
    for queue in queues:
        if queue.partitions.filter(state=PartitionState.RUNNING).exists():
            starts.ask(queue.pk)


def _rows_of(queues: Iterable[Queue]) -> dict[int, list[QueuePartition]]:
    """What is written of their partitions, by the queue's id."""
    ids = [queue.pk for queue in queues]
    rows = QueuePartition.objects.filter(queue__in=ids).only(*_COMPARED).order_by("queue_id")
    return {key: list(mine) for key, mine in groupby(rows, attrgetter("queue_id"))}


def _start_where_grown(
    there: Iterable[tuple[Queue, TopicLook]], rows_of: Mapping[int, Sequence[QueuePartition]]
) -> None:
    """Let a run note the partitions that the topics of idle queues have got since.

    What waits for a message waits at the partitions that are known, and would hear of no other.
    """
    for queue, look in there:
        mine = rows_of.get(queue.pk, ())
        is_idle = any(row.state == PartitionState.RUNNING for row in mine)
        if is_idle and len(mine) < look.facts.partitions:
            starts.ask(queue.pk)


def _start_where_made_anew(
    there: Iterable[tuple[Queue, TopicLook]], rows_of: Mapping[int, Sequence[QueuePartition]]
) -> None:
    """Let a run find out, and say, that a topic of too many partitions is another one by now.

    A person can decide about the new one only then: a blocked queue does not look by itself.
    """
    for queue, look in there:
        mine = rows_of.get(queue.pk, ())
        blocked = [row for row in mine if row.state_code == "MORE_PARTITIONS"]
        if any(row.topic_uuid != look.facts.topic_uuid for row in blocked):
            starts.ask(queue.pk)


def _with_news(
    there: Iterable[tuple[Queue, TopicLook]],
    rows_of: Mapping[int, Sequence[QueuePartition]],
    *,
    follows: bool,
) -> list[tuple[Queue, TopicLook]]:
    """Queues of which the look tells more than is written; of the others, when it was.

    Of a thousand idle queues nothing is written but that, in two statements.
    """
    news, same = [], []
    for queue, look in there:
        mine = rows_of.get(queue.pk, ())
        follows_up = follows and look.retention_seconds not in {None, queue.retention_seconds}
        if not follows_up and all(_is_known(row, look) for row in mine):
            same += [row.pk for row in mine]
        else:
            news.append((queue, look))
    execute(_SEEN, (same,))
    return news


def _is_known(row: QueuePartition, look: TopicLook) -> bool:
    """Return whether nothing waits, nothing hangs, and the ends are those of the look before."""
    low, high = look.facts.low.get(row.partition), look.facts.high.get(row.partition)
    return (
        (row.topic_uuid, row.low_watermark, row.high_watermark)
        == (look.facts.topic_uuid, low, high)
        and high is not None
        and row.next_offset >= high == look.ends[row.partition]
        and row.oldest_waiting_at is None
        and row.state_code not in stable_ends.CODES
    )


def _note_transactions(
    provider: Provider, there: Iterable[tuple[Queue, TopicLook]], patience: int
) -> None:
    """Note the open transactions; how long they may last is asked only where one hangs."""
    hanging = [(queue, look) for queue, look in there if _hangs(queue, look, patience)]
    longest = looks.longest_transaction(provider) if hanging else None
    if longest is not None:
        for queue, look in hanging:
            _hangs(queue, look, patience, longest)


def _hangs(queue: Queue, look: TopicLook, patience: int, longest: float | None = None) -> bool:
    """Note the open transactions of a topic; whether one of them hangs."""
    hanging = 0
    with django_connection().cursor() as cursor:
        for partition, stable in look.facts.high.items():
            place = (queue.pk, partition, look.facts.topic_uuid)
            ends = (stable, look.ends[partition])
            hanging += stable_ends.note(cursor, place, ends, patience, longest)
    return hanging > 0


def _write_down(queue: Queue, look: TopicLook, actor: str, *, follows: bool) -> None:
    # Asked before this look's own time is written.
    unmoved = _unmoved(queue, look.facts)
    write(queue.pk, look.facts)
    write_oldest(queue, look.facts, unmoved)
    seconds = look.retention_seconds
    if follows and seconds is not None and seconds != queue.retention_seconds:
        retention_sync.follow(queue.pk, seconds, actor)


def _retention_follows() -> bool:
    """Return whether queues' retention follows the topics': as the instance of its task is set."""
    sync = CronInstance.objects.filter(task="retention_sync", active=True).first()
    return sync is not None and sync.parameters.get("apply", True) is not False


def write(queue_id: int, facts: TopicFacts) -> None:
    """Store watermarks of the partitions that are still those of this topic."""
    with django_connection().cursor() as cursor:
        for partition, low in facts.low.items():
            high = facts.high[partition]
            cursor.execute(_WRITE, (low, high, queue_id, partition, facts.topic_uuid))


def write_oldest(queue: Queue, facts: TopicFacts, unmoved: Collection[int] = frozenset()) -> None:
    """Store since when the first message of each partition waits; nothing where none waits.

    Behind a message that is kept in its row (a sequential queue's failed head), and behind those
    that were rescued, the next one counts: that is the one that can expire. About `unmoved`
    partitions nobody is asked.
    """
    rows = list(queue.partitions.filter(topic_uuid=facts.topic_uuid))
    waiting = {row.partition: first for row in rows if (first := _first(row, facts)) is not None}
    unknown = {p: first for p, first in waiting.items() if p not in unmoved}
    oldest = first_waiting(queue.provider, queue.topic, unknown) if unknown else {}
    for row in rows:
        at = oldest.get(row.partition)
        if at != row.oldest_waiting_at and row.partition not in unmoved:
            execute(_OLDEST, (at, row.pk))


def _first(row: QueuePartition, facts: TopicFacts) -> int | None:
    """The offset of the first message that waits in Kafka alone; None when none does."""
    low, high = facts.low.get(row.partition, 0), facts.high.get(row.partition, 0)
    first = max(row.next_offset + (row.state_error is not None), low)
    if row.rescued_to is not None and first < row.rescued_to:
        first = first_outside(row.rescues.ranges(row.topic_uuid), first)
    return first if first < high else None


def _unmoved(queue: Queue, facts: TopicFacts) -> set[int]:
    """Partitions whose first waiting message is known and is the same as at the last look.

    The state counts as well: a head that failed since moves the first waiting message on.
    """
    unmoved = queue.partitions.filter(
        Q(progressed_at=None) | Q(progressed_at__lt=F("seen_at")),
        Q(state_since=None) | Q(state_since__lt=F("seen_at")),
        Q(rescued_at=None) | Q(rescued_at__lt=F("seen_at")),
        oldest_waiting_at__isnull=False,
        topic_uuid=facts.topic_uuid,
    )
    return {
        row.partition
        for row in unmoved
        if row.next_offset >= facts.low.get(row.partition, 0) and _first(row, facts) is not None
    }
