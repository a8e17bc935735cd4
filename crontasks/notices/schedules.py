"""Conditions of cron tasks: runs that ended badly, and moments that nobody acted upon."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from crontasks.cursor import Cursor
from crontasks.definitions import registry
from crontasks.errors import BadScheduleError
from crontasks.models import CronInstance
from crontasks.models.notice import NoticeKind
from crontasks.notices.condition import Condition
from crontasks.notices.rules import RuleBook
from crontasks.outcome import BAD_ENDINGS, RunState
from integration.counting import so_many
from integration.durations import spoken

# However many runs a rule asks for, so many of the newest are looked at.
MOST_RUNS: Final = 100
TEXT_LENGTH: Final = 500
# A run that did nothing leaves no row: where a later moment was acted upon since it began, and
# nothing is at work, all was well. From a moment on to its row it may take so long.
BEGUN_SECONDS: Final = 10
# A consumer's runs follow no moments; one that fails does so again and again.
CONSUMER_SECONDS: Final = 600
_BAD: Final = f"""
    SELECT i.name, coalesce(q.name, ''), last.states, last.text
    FROM crontasks_croninstance i LEFT JOIN integration_queue q ON q.id = i.queue_id
    CROSS JOIN LATERAL (
        SELECT array_agg(few.state ORDER BY few.started_at DESC, few.id DESC) AS states,
               (array_agg(few.text ORDER BY few.started_at DESC, few.id DESC))[1] AS text,
               (array_agg(few.ended_at ORDER BY few.started_at DESC, few.id DESC))[1] AS ended_at,
               (array_agg(few.scheduled_at ORDER BY few.started_at DESC, few.id DESC))[1] AS moment,
               max(few.started_at) AS started_at
        FROM (
            SELECT r.id, r.state, r.text, r.started_at, r.ended_at, r.scheduled_at
            FROM crontasks_cronrun r WHERE r.instance_id = i.id AND r.state <> 'RUNNING'
            ORDER BY r.started_at DESC, r.id DESC LIMIT %(runs)s) few) last
    WHERE i.active AND last.states[1] = ANY(%(bad)s)
      AND NOT (i.task = ANY(%(noticed)s) AND last.states[1] = 'FAILED' AND last.text = '')
      AND CASE WHEN i.queue_id IS NOT NULL
          THEN q.enabled AND NOT q.paused
               AND last.ended_at > clock_timestamp() - make_interval(secs => {CONSUMER_SECONDS})
          ELSE last.moment IS NULL
               OR i.last_scheduled_at <= greatest(last.moment, last.started_at)
               OR i.last_scheduled_at
                  > clock_timestamp() - make_interval(secs => {BEGUN_SECONDS})
               OR EXISTS (SELECT FROM crontasks_cronrun r
                          WHERE r.instance_id = i.id AND r.state = 'RUNNING') END"""


def failed(cursor: Cursor, rules: RuleBook) -> Iterator[Condition]:
    """Active schedules whose last runs ended badly.

    A task that has notices of its own for what it found (`is_noticed`) counts only when it broke.
    """
    noticed = [definition.name for definition in registry if definition.task.is_noticed]
    bad = [str(state) for state in BAD_ENDINGS]
    runs = min(max(rules.most_count(NoticeKind.CRON_FAILED), 1), MOST_RUNS)
    cursor.execute(_BAD, {"runs": runs, "bad": bad, "noticed": noticed})
    for name, queue, states, text in cursor.fetchall():
        least = rules.of(NoticeKind.CRON_FAILED, queue=queue).at_least or 1
        in_a_row = next((n for n, state in enumerate(states) if state not in bad), len(states))
        if in_a_row >= min(least, runs):
            yield Condition(NoticeKind.CRON_FAILED, name, _said(in_a_row, states[0], text), queue)


def late(rules: RuleBook, now: datetime) -> Iterator[Condition]:
    """Schedules with a moment that nobody acted upon. A queue's own has NO_CONSUMER and OLDEST.

    And those that stand still until a time to come: a clock that was wrong has named a moment of
    theirs, and no beat has brought it back.
    """
    patience = rules.of(NoticeKind.CRON_LATE).longer_than_seconds or 0
    most = timedelta(seconds=patience)
    rows = CronInstance.objects.filter(active=True, queue=None, last_scheduled_at__isnull=False)
    for instance in rows.filter(last_scheduled_at__gt=now + most):
        yield Condition(NoticeKind.CRON_LATE, instance.name, _ahead(instance))
    for instance in rows.filter(last_scheduled_at__lt=now - most):
        missed = missed_since(instance)
        if missed is not None and (now - missed).total_seconds() > patience:
            due = f"{spoken(now - missed)} ago, at {missed:%d %B %Y %H:%M} UTC"
            text = (
                f"It was due {due}, and no run has begun. Look whether beat and a worker live and "
                "whether the slots are taken; “Run now” on its page makes up for it."
            )
            yield Condition(NoticeKind.CRON_LATE, instance.name, text)


def _ahead(instance: CronInstance) -> str:
    return (
        f"Its last run counts as that of {instance.last_scheduled_at:%d %B %Y %H:%M} UTC, and none "
        "begins before: a host's clock was wrong. A beat that leads puts it right within seconds; "
        "if this stays, restart beat."
    )


def missed_since(instance: CronInstance) -> datetime | None:
    """The first moment after the last one that was acted upon; None if there is none.

    Where missed moments are skipped, one alone may have been skipped by that rule.
    """
    acted = instance.last_scheduled_at
    if acted is None:
        return None
    skips = instance.misfire == CronInstance.Misfire.SKIP
    try:
        return next(islice(instance.schedule().following(acted), int(skips), None), None)
    except BadScheduleError:
        return None


def _said(in_a_row: int, state: str, text: str) -> str:
    how = {RunState.TIMED_OUT: "at its time limit", RunState.LOST: "as its process died"}
    ended = f"ended {how[RunState(state)]}" if RunState(state) in how else "failed"
    runs = "Its last run" if in_a_row == 1 else f"Its last {so_many(in_a_row, 'run')}"
    reason = f": {text[:TEXT_LENGTH].rstrip('.')}" if text else ""
    return f"{runs} {ended}{reason}. Its page has the end of the log."
