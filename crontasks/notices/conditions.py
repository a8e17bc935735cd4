"""Conditions that are wrong right now, by plain queries; nothing here tells anybody."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from django.conf import settings

from crontasks.cursor import Cursor
from crontasks.health import broker, readiness, slot_words, slots
from crontasks.health.slots import PATIENCE, Run, Stage
from crontasks.hearts import are_alive
from crontasks.models.notice import NoticeKind
from crontasks.notices import measures, rules, schedules
from crontasks.notices.condition import Condition
from crontasks.notices.rules import RuleBook
from crontasks.problems.queues import SOON_SHARE
from integration.counting import listed, so_many
from integration.delivery.relay.left_out import leaves_out
from integration.durations import rough, spoken
from integration.policy.relay_shares import BUCKETS
from integration.selectors.masking.partitions import StateText, covered
from integration.selectors.outbox.branches import (
    CommitInDoubt,
    HeldByOthers,
    commits_in_doubt,
    held_by_others,
)
from integration.selectors.outbox.shards import waits_sql
from integration.selectors.queues.rescued import GET_GOING, REASONS, stopped_as
from integration.selectors.queues.status import NO_BEAT, NO_BROKER, NO_RELAY, NO_WORKER, Situation
from integration.store import locks
from integration.store.locks import LockClass
from integration.store.queue_stops import IS_AT_STOP
from integration.store.relay_sharing import BUCKET
from integration.store.sessions import database_time, django_connection
from integration.store.sharing import IS_FREE, LOCKED
from integration.store.stable_ends import IS_HELD_BACK, TRANSACTION_HANGS
from integration.store.starts import IS_READ, IS_WANTED

WORKER_KINDS: Final = frozenset(NoticeKind) - {NoticeKind.NO_WORKER}
# What is judged by heartbeats and leases, which are old where nothing ran a moment ago.
SETTLED_KINDS: Final = frozenset(
    {
        NoticeKind.NO_CONSUMER,
        NoticeKind.NO_RELAY,
        NoticeKind.NO_BEAT,
        NoticeKind.CRON_LATE,
    }
)

_STATES: Final = f"""
    SELECT CASE WHEN {IS_HELD_BACK} THEN 'OUTAGE' ELSE p.state END,
           q.name || '[' || p.partition || ']',
           q.id, p.state, p.state_code, p.state_text, p.state_error
    FROM integration_queuepartition p JOIN integration_queue q ON q.id = p.queue_id
    WHERE q.enabled AND NOT q.paused
      AND (p.state IN ('BLOCKED', 'BRAKED') OR {IS_HELD_BACK} OR (p.state IN ('OUTAGE', 'WAITING')
           AND p.state_since < clock_timestamp() - interval '30 s'
           AND NOT (p.state_code = 'KEYS_MOVED' AND p.producers_know_at IS NOT NULL)))"""
# As the overview tells it. Once it is open, it is over only with some distance: a queue that is
# read slowly would pass the line again and again.
_OVER_SHARE: Final = 1.5
_EXPIRING: Final = f"""
    WITH queue AS (
        SELECT q.name, q.topic, q.retention_seconds AS kept, min(p.oldest_waiting_at) AS oldest,
               sum(greatest(0, p.high_watermark
                   - greatest(p.next_offset, p.low_watermark, p.rescued_to))) AS lag,
               q.retention_seconds * {SOON_SHARE} AS quarter
        FROM integration_queue q JOIN integration_queuepartition p ON p.queue_id = q.id
        JOIN integration_provider v ON v.id = q.provider_id AND v.kind = 'kafka'
        WHERE q.enabled AND {IS_READ} GROUP BY q.id
    )
    SELECT name, topic, kept, lag, oldest + make_interval(secs => kept), clock_timestamp(),
           quarter, EXISTS (SELECT FROM crontasks_notice n WHERE n.kind = 'EXPIRING'
                            AND n.subject = queue.name AND n.closed_at IS NULL)
    FROM queue
    WHERE lag > 0 AND oldest + make_interval(secs => kept - least(%s, quarter) * {_OVER_SHARE})
        < clock_timestamp()"""
_RESCUED: Final = """
    SELECT q.name, q.topic, sum(r.records)::bigint, array_agg(DISTINCT r.reason)
    FROM integration_rescue r JOIN integration_queuepartition p ON p.id = r.partition_id
    JOIN integration_queue q ON q.id = p.queue_id
    WHERE r.topic_uuid = p.topic_uuid AND r.to_offset > p.next_offset
    GROUP BY q.id HAVING sum(r.records) > 0"""
_RESCUE_STOPPED: Final = """
    SELECT q.name, p.partition, p.rescue_code, p.rescue_text
    FROM integration_queuepartition p JOIN integration_queue q ON q.id = p.queue_id
    WHERE p.rescue_code <> ''"""
_GAPS: Final = """
    SELECT q.name || '[' || p.partition || ']', sum(g.to_offset - g.from_offset)::bigint
    FROM integration_gap g JOIN integration_queuepartition p ON p.id = g.partition_id
    JOIN integration_queue q ON q.id = p.queue_id
    WHERE g.acknowledged_at IS NULL GROUP BY 1"""
# A queue whose schedule has not come around yet is not left alone: only a tick that nobody
# followed counts, or an instance that is missing or switched off.
_UNREAD: Final = f"""
    WITH {LOCKED}
    SELECT q.name, p.partition, p.high_watermark - p.next_offset,
           extract(epoch FROM clock_timestamp()
               - coalesce(greatest(p.progressed_at, s.released_at), 'epoch'::timestamptz))::float8,
           CASE WHEN i.active THEN extract(epoch FROM i.last_scheduled_at
               - coalesce(s.released_at, s.taken_at, 'epoch'::timestamptz))::float8 END
    FROM integration_queue q JOIN integration_queuepartition p ON p.queue_id = q.id
    LEFT JOIN integration_partitionlease s ON s.partition_id = p.id AND NOT s.rescues
    LEFT JOIN crontasks_croninstance i ON i.queue_id = q.id
    WHERE {IS_WANTED} AND p.state = 'RUNNING' AND p.high_watermark > p.next_offset AND {IS_FREE}
      AND NOT {IS_AT_STOP}
      AND (i.id IS NULL OR NOT i.active OR i.last_scheduled_at IS NOT NULL)
      AND coalesce(greatest(p.progressed_at, s.released_at), 'epoch'::timestamptz)
          < clock_timestamp() - make_interval(secs => %s)"""
# The shard that holds a topic, or else whose share it is in: as policy.relay_shares.shard_of.
_SENDER: Final = f"coalesce(l.shard, ((d.bucket + 1) * v.shards - 1) / {BUCKETS})"
# Nobody relays (the trouble is null), or a relay has trouble; one that is just late is neither.
# Each state has an index of its own; a list of both would have all read that was ever sent. Of
# several shards, one that leaves topics out is told of last: what it has to send else is sent.
_UNSENT: Final = f"""
    WITH unsent AS (
        SELECT * FROM integration_outboxrow WHERE state = 'PENDING'
        UNION ALL
        SELECT * FROM integration_outboxrow WHERE state = 'STAMPED'
    ), due AS (
        SELECT provider_id, {BUCKET} AS bucket, count(*) AS count FROM unsent
        WHERE greatest(created_at, not_before) < clock_timestamp() - make_interval(secs => %s)
        GROUP BY 1, 2
    ), met AS (
        SELECT d.*, CASE
            WHEN {locks.is_held(LockClass.RELAY, locks.relay_key_sql("d.provider_id", _SENDER))}
            THEN coalesce(l.trouble, '') END AS trouble
        FROM due d JOIN integration_provider v ON v.id = d.provider_id
        LEFT JOIN integration_relaylease l ON l.provider_id = d.provider_id
          AND d.bucket >= l.first_bucket AND d.bucket < l.end_bucket
    )
    SELECT v.name, sum(met.count)::bigint,
           coalesce(max(met.trouble) FILTER (WHERE {waits_sql("met.trouble")}),
                    CASE WHEN bool_and(met.trouble IS NOT NULL) THEN max(met.trouble) END)
    FROM met JOIN integration_provider v ON v.id = met.provider_id
    WHERE met.trouble IS DISTINCT FROM '' GROUP BY v.name"""

_REFUSED: Final = """
    SELECT q.name, min(o.id), min(o.dead_code) FROM integration_outboxrow o
    JOIN integration_queue q ON q.id = o.strict_queue
    WHERE o.state = 'DEAD' AND o.strict_queue IS NOT NULL GROUP BY q.name"""
_IN_DOUBT: Final = """
    SELECT v.name, l.in_doubt_text FROM integration_relaylease l
    JOIN integration_provider v ON v.id = l.provider_id WHERE l.in_doubt_since IS NOT NULL"""


def seen_by_workers(*, is_settled: bool) -> list[Condition]:
    """Everything but dead workers. Until `is_settled` nobody is called dead.

    Asks the broker of Celery as well, which takes some seconds where that is away.
    """
    book = rules.load()
    away = list(_broker())
    foreign = readiness.environment()
    if isinstance(foreign, Situation):
        text = f"{foreign.why} {foreign.detail} {foreign.next_step}"
        return [Condition(NoticeKind.COPY, settings.SLUICE_DEPLOYMENT, text)]
    with django_connection().cursor() as cursor:
        conditions = [*away, *_states(cursor), *_gaps(cursor), *_stuck(cursor), *_slots()]
        conditions += [*measures.bursts(cursor, book), *measures.failures(cursor, book)]
        conditions += [*measures.waiting(cursor, book), *_expiring(cursor, book)]
        conditions += [*_rescues(cursor), *schedules.failed(cursor, book)]
        if is_settled:
            conditions += [*_unread(cursor, book), *_unsent(cursor, book)]
            conditions += _beat(cursor) or schedules.late(book, database_time())
        return conditions


def kinds_of_workers(*, is_settled: bool) -> frozenset[NoticeKind]:
    """List what `seen_by_workers` speaks of; of all else what was noticed before still holds."""
    return WORKER_KINDS if is_settled else WORKER_KINDS - SETTLED_KINDS


def kinds_of_beat(*, workers_alive: bool) -> frozenset[NoticeKind]:
    """List the broker's: a worker tells, or beat where none is, for two hosts may differ."""
    ours = frozenset({NoticeKind.NO_WORKER})
    return ours if workers_alive else ours | {NoticeKind.NO_BROKER}


def seen_by_beat(*, workers_alive: bool) -> list[Condition]:
    """List what workers cannot say of themselves. Asks the broker of Celery where none is alive."""
    if workers_alive:
        return []
    return [_of_all(NoticeKind.NO_WORKER, NO_WORKER), *_broker()]


def _broker() -> Iterator[Condition]:
    if broker.lasting_silence() is not None:
        yield _of_all(NoticeKind.NO_BROKER, NO_BROKER)


def _of_all(kind: NoticeKind, situation: Situation) -> Condition:
    """Something that the whole installation lacks."""
    return Condition(kind, settings.SLUICE_DEPLOYMENT, situation.text)


def _states(cursor: Cursor) -> Iterator[Condition]:
    cursor.execute(_STATES)
    rows = cursor.fetchall()
    told = [StateText(*of_state) for _, _, *of_state in rows]
    # A notice is mailed and logged: nobody can mask it afterwards.
    for (state, subject, _, _, code, *_), text in zip(rows, covered(told), strict=True):
        reason = f"{code}: {text}"
        if code == TRANSACTION_HANGS:
            reason += (
                f". `manage.py check_flow {subject.partition('[')[0]}` gives the commands that "
                "tell whose transaction it is and that end it."
            )
        yield Condition(NoticeKind(state), subject, reason)


def _gaps(cursor: Cursor) -> Iterator[Condition]:
    cursor.execute(_GAPS)
    for subject, count in cursor.fetchall():
        gone = so_many(count, "offset was gone before it was", "offsets were gone before they were")
        text = f"{gone} read. Look at the gap and acknowledge it."
        yield Condition(NoticeKind.GAP, subject, text)


def _expiring(cursor: Cursor, book: RuleBook) -> Iterator[Condition]:
    """Yield one for each queue, however many partitions: what is to be done is the same."""
    cursor.execute(_EXPIRING, (book.seconds(NoticeKind.EXPIRING)[-1],))
    for subject, topic, age, lag, at, now, quarter, is_open in cursor.fetchall():
        soon = book.of(NoticeKind.EXPIRING, queue=subject).longer_than_seconds or 0
        soon = min(soon, quarter) * (_OVER_SHARE if is_open else 1)
        if (at - now).total_seconds() >= soon:
            continue
        left = f"in {spoken(at - now)}, at {at:%d %B %Y %H:%M} UTC"
        when = "may leave Kafka at any moment" if at <= now else f"leaves Kafka {left}"
        text = (
            f"{so_many(lag, 'message waits', 'messages wait')} that nobody has tried yet, and the "
            f"first {when}: {topic} keeps its messages for {rough(age)}. Get the queue going now "
            f"(`manage.py check_flow {subject}` names what stops it), or lengthen retention.ms of "
            f"{topic} first."
        )
        yield Condition(NoticeKind.EXPIRING, subject, text)


def _rescues(cursor: Cursor) -> Iterator[Condition]:
    cursor.execute(_RESCUED)
    for subject, topic, count, reasons in cursor.fetchall():
        why = listed([REASONS.get(reason, reason) for reason in reasons], len(REASONS))
        text = (
            f"{so_many(count, 'message')} that nobody has tried stand copied in the database, as "
            f"{topic} was about to forget them and the queue {why}. {GET_GOING} "
            f"`manage.py check_flow {subject}` names what stops it."
        )
        yield Condition(NoticeKind.RESCUED, subject, text)
    cursor.execute(_RESCUE_STOPPED)
    for name, partition, code, reason in cursor.fetchall():
        text = stopped_as(code, reason).text
        yield Condition(NoticeKind.RESCUE_STOPPED, f"{name}[{partition}]", text)


def _slots() -> Iterator[Condition]:
    """Yield one for each queue with a hanging call until its message is through, and of all."""
    usage = slots.look()
    hung = {run.queue: run for run in reversed(usage.runs) if _is_to_be_told(run, usage.now)}
    for queue, run in sorted(hung.items()):
        yield Condition(NoticeKind.HUNG, queue, slot_words.of_run(run, usage.now).text)
    if usage.lacking and usage.now - usage.lacking[0].since > PATIENCE:
        yield _of_all(NoticeKind.NO_SLOT, slot_words.of_all(usage))


def _is_to_be_told(run: Run, now: datetime) -> bool:
    """A database that stands still for seconds delays renewals as well: that is nobody's mail."""
    is_late = run.is_silent and not run.has_lapsed(now)
    return run.stage is not Stage.WORKS and not is_late


def _stuck(cursor: Cursor) -> Iterator[Condition]:
    """Outbound queues that go on only after a person's decision."""
    cursor.execute(_REFUSED)
    for subject, row, code in cursor.fetchall():
        text = (
            f"{code}: Kafka refused row {row} of the outbox, and what follows on this queue waits. "
            "Decide on the outbox page, or with `manage.py outbox`."
        )
        yield Condition(NoticeKind.BLOCKED, subject, text)
    cursor.execute(_IN_DOUBT)
    for subject, text in cursor.fetchall():
        yield Condition(NoticeKind.BLOCKED, f"relay of {subject}", text)
    held: list[CommitInDoubt | HeldByOthers] = [*commits_in_doubt(), *held_by_others()]
    for one in held:
        subject = f"{one.queue}[{one.partition}]"
        yield Condition(NoticeKind.BLOCKED, subject, one.situation.text)


def _unread(cursor: Cursor, book: RuleBook) -> Iterator[Condition]:
    """Yield one for each partition; its schedule has come around so long after the last reader."""
    cursor.execute(_UNREAD, (book.seconds(NoticeKind.NO_CONSUMER)[0],))
    for name, partition, lag, unread, since_tick in cursor.fetchall():
        patience = book.of(NoticeKind.NO_CONSUMER, queue=name).longer_than_seconds or 0
        if unread < patience or (since_tick is not None and since_tick <= patience):
            continue
        text = (
            f"{so_many(lag, 'message waits', 'messages wait')} and nothing reads this queue. "
            f"`manage.py check_flow {name}` names the broken link."
        )
        yield Condition(NoticeKind.NO_CONSUMER, f"{name}[{partition}]", text)


def _unsent(cursor: Cursor, book: RuleBook) -> Iterator[Condition]:
    seconds = book.of(NoticeKind.NO_RELAY).longer_than_seconds or 0
    cursor.execute(_UNSENT, (seconds,))
    for subject, count, trouble in cursor.fetchall():
        due = so_many(count, "outgoing message is", "outgoing messages are")
        why = f"{due} due for over {seconds:,} seconds and"
        text = f"{why} no relay is at work. {NO_RELAY.next_step}"
        if trouble:
            what = "leaves topics out" if leaves_out(trouble) else "waits for Kafka"
            text = f"{why} the relay {what}. {trouble}"
        yield Condition(NoticeKind.NO_RELAY, subject, text)


def _beat(cursor: Cursor) -> list[Condition]:
    """While no beat lives every schedule is late: that is one condition."""
    if are_alive(cursor, "beat"):
        return []
    return [_of_all(NoticeKind.NO_BEAT, NO_BEAT)]
