"""Writes down what runs did: one row a run, none for a tick that did nothing."""

import socket
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeGuard

from django.db import transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from crontasks.models import CronInstance, CronRun
from crontasks.outcome import TEXT_LENGTH, Context, Outcome, RunState
from integration.delivery.report import RunEnding
from integration.documents.refusals import plain_text
from integration.store import locks
from integration.store.sessions import database_now, fetch_all

# Turns of one queue that only gave way to others are one run for people, up to this length.
_JOIN_GAP: Final = timedelta(seconds=30)
_JOIN_LONGEST: Final = timedelta(minutes=10)
# A worker ends a run soon after its time limit (ticks.HARD_LIMIT_SECONDS). What holds its lock for
# so much longer stands still together with its worker, and would for ever.
_OVERDUE_SECONDS: Final = 120
_END_OVERDUE: Final = f"""
SELECT pg_terminate_backend(l.pid) FROM pg_locks l
JOIN crontasks_croninstance i ON i.id = l.objid::bigint
JOIN pg_stat_activity a ON a.pid = l.pid
WHERE {locks.of(locks.LockClass.INSTANCE)}
  AND a.backend_start < clock_timestamp() - make_interval(secs => i.timeout_seconds + %s)"""
# Endings that say something even when no message was touched; repeated ones are not repeated.
_TELLING: Final[frozenset[str]] = frozenset(
    {
        RunEnding.BLOCKED,
        RunEnding.BRAKED,
        RunEnding.OUTAGE,
        RunEnding.WAITING,
        RunEnding.LOST,
        RunState.FAILED,
    }
)


class Report(Protocol):
    """The engine's report of one run."""

    @property
    def counts(self) -> Mapping[str, int]: ...

    @property
    def ending(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def drained(self) -> bool: ...


def node() -> str:
    return socket.gethostname()


def begin(instance: CronInstance, context: Context) -> CronRun:
    """The row of a run at work, so that one whose process dies is seen."""
    return CronRun.objects.create(
        instance=instance,
        scheduled_at=context.scheduled_at,
        started_at=timezone.now(),
        state=RunState.RUNNING,
        node=node(),
    )


def note_not_begun(instance: CronInstance, context: Context) -> CronRun:
    """The row of a run that a person asked for while another was at work.

    It stands behind the latest run, whose end is the one that tells how the instance fares.
    """
    now, latest = timezone.now(), instance.runs.first()
    return CronRun.objects.create(
        instance=instance,
        scheduled_at=context.scheduled_at,
        started_at=now if latest is None else latest.started_at - timedelta(milliseconds=1),
        ended_at=now,
        duration_seconds=0.0,
        state=RunState.FAILED,
        text="Not begun: another run was still at work.",
        log_excerpt=context.excerpt,
        node=node(),
    )


def end(run: CronRun, outcome: Outcome, context: Context) -> None:
    """Complete the row, or take it away when nothing was done."""
    if outcome.is_empty and not context.excerpt:
        run.delete()
        return
    run.ended_at = timezone.now()
    run.duration_seconds = round((run.ended_at - run.started_at).total_seconds(), 3)
    run.state = outcome.state
    # Whatever a task says, counts or raises, the page has it: a row that cannot be written stays at
    # work.
    counts: Counter[str] = Counter()
    for name, count in outcome.counts.items():
        counts[plain_text(name)] += count
    run.counts = {name: count for name, count in counts.items() if count}
    run.text = plain_text(outcome.text)[:TEXT_LENGTH]
    run.log_excerpt = plain_text(context.excerpt)
    run.save()


def note_consumer(queue_id: int, report: Report, started_at: datetime) -> CronRun | None:
    """Record a run of the engine; None when there was nothing to tell."""
    counts = {name: count for name, count in report.counts.items() if count}
    if not counts and report.ending not in _TELLING:
        return None
    with transaction.atomic():
        return _note(queue_id, report, counts, started_at)


def _note(
    queue_id: int, report: Report, counts: Mapping[str, int], started_at: datetime
) -> CronRun | None:
    # Of several runs of one queue that end together, one after the other adds its counts.
    instance = CronInstance.objects.select_for_update().filter(queue=queue_id).first()
    if instance is None:
        return None
    last = instance.runs.first()
    ended_at = timezone.now()
    if not counts and _is_repeated(last, report):
        # That it goes on failing is seen by when it did so last.
        CronRun.objects.filter(pk=last.pk, state=RunState.FAILED).update(ended_at=ended_at)
        return None
    if last is None or not _joins(last, started_at):
        last = CronRun(
            instance=instance,
            scheduled_at=instance.last_scheduled_at,
            started_at=started_at,
            duration_seconds=0.0,
            node=node(),
        )
    last.counts = dict(Counter(last.counts) + Counter(counts))
    last.duration_seconds = round(
        (last.duration_seconds or 0) + (ended_at - started_at).total_seconds(), 3
    )
    last.ended_at, last.ending, last.text = ended_at, str(report.ending), _said(report)
    last.state = RunState.FAILED if report.ending == RunState.FAILED else RunState.DONE
    last.save()
    return last


def _is_repeated(last: CronRun | None, report: Report) -> TypeGuard[CronRun]:
    return last is not None and (last.ending, last.text) == (report.ending, _said(report))


def _said(report: Report) -> str:
    return plain_text(report.text)[:TEXT_LENGTH]


def _joins(last: CronRun, started_at: datetime) -> bool:
    return (
        last.ending == RunEnding.YIELDED
        and last.ended_at is not None
        and started_at - last.ended_at < _JOIN_GAP
        and started_at - last.started_at < _JOIN_LONGEST
    )


def mark_lost() -> int:
    """Runs whose process died without a word; returns how many there were.

    A run holds its instance's lock while it works; one that has just begun gets a minute. The lock
    of one that stands still long after its time limit is taken from it.
    """
    fetch_all(_END_OVERDUE, [_OVERDUE_SECONDS])
    lost = CronRun.objects.filter(state=RunState.RUNNING).exclude(instance__in=_held())
    return _lose(lost.filter(started_at__lt=database_now() - timedelta(minutes=1)))


def settle_lost(instance_id: int) -> bool:
    """Mark this instance's run as lost if its process died; whether there was one.

    Without a grace: a row is written and completed while the lock is held, so that one which was
    there before the lock was found free has nobody any more.
    """
    running = CronRun.objects.filter(instance=instance_id, state=RunState.RUNNING)
    before = list(running.values_list("pk", flat=True))
    if not before or instance_id in _held():
        return False
    return _lose(running.filter(pk__in=before)) > 0


def _held() -> list[int]:
    return [number for (number,) in fetch_all(locks.held(locks.LockClass.INSTANCE))]


def _lose(runs: QuerySet[CronRun]) -> int:
    return runs.update(
        state=RunState.LOST,
        ended_at=F("started_at"),
        text="The process that ran it ended without a message, or stands still.",
    )
