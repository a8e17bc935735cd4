"""Conditions that are a number beyond a threshold: what waits, for how long, how many failed."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from crontasks.cursor import Cursor
from crontasks.models.notice import NoticeKind
from crontasks.notices.condition import Condition, cause_subject
from crontasks.notices.rules import RuleBook
from integration.counting import so_many
from integration.durations import rough, written
from integration.store.queue_stops import IS_AT_STOP
from integration.store.stable_ends import IS_HELD_BACK
from integration.store.starts import IS_READ

# The newest so many failures are looked at: after an import with a bad file there are millions.
MOST_ROWS: Final = 50_000
# A consumer with so short an interval is asked often enough to count as always due.
PROMPT_SECONDS: Final = 60
# What stands still for a reason of its own has a notice of its own. A queue whose schedule has not
# come around since then is not late: one that is read at night waits all day.
WAITING: Final = f"""
    SELECT q.id, q.name,
           sum(greatest(0, p.high_watermark - p.next_offset))::bigint AS lag,
           coalesce(extract(epoch FROM clock_timestamp() - min(p.oldest_waiting_at) FILTER (WHERE
               EXISTS (SELECT FROM crontasks_croninstance i WHERE i.queue_id = q.id
                   AND (NOT i.active OR i.interval_seconds <= {PROMPT_SECONDS}
                        OR i.last_scheduled_at >= p.oldest_waiting_at))
               OR NOT EXISTS (SELECT FROM crontasks_croninstance i WHERE i.queue_id = q.id))
           ), 0)::float8 AS oldest
    FROM integration_queue q JOIN integration_queuepartition p ON p.queue_id = q.id
    WHERE q.enabled AND NOT q.paused AND {IS_READ}
      AND p.state NOT IN ('BLOCKED', 'BRAKED', 'OUTAGE', 'WAITING')
      AND NOT {IS_HELD_BACK} AND NOT {IS_AT_STOP}
      AND p.high_watermark > p.next_offset
    GROUP BY q.id"""
_HELD: Final = f"""
    SELECT q.name, e.code, count(*) FROM (
        SELECT queue_id, code FROM integration_messageerror
        WHERE state = 'HOLD' AND last_failed_at > clock_timestamp() - make_interval(secs => %s)
        ORDER BY last_failed_at DESC LIMIT {MOST_ROWS}) e
    JOIN integration_queue q ON q.id = e.queue_id GROUP BY q.name, e.code"""
_FAILED: Final = f"""
    SELECT q.name, e.code, count(*) FROM (
        SELECT queue_id, code, first_failed_at FROM integration_messageerror
        WHERE last_failed_at > clock_timestamp() - make_interval(secs => %(window)s)
        ORDER BY last_failed_at DESC LIMIT {MOST_ROWS}) e
    JOIN integration_queue q ON q.id = e.queue_id
    WHERE e.first_failed_at > clock_timestamp() - make_interval(secs => %(window)s)
    GROUP BY q.name, e.code"""


def waiting(cursor: Cursor, rules: RuleBook) -> Iterator[Condition]:
    """Queues for which too much waits, or for too long."""
    cursor.execute(WAITING)
    for _, name, lag, oldest in cursor.fetchall():
        most = rules.of(NoticeKind.LAG, queue=name).at_least
        see = f"`manage.py check_flow {name}` says whether something stops it."
        if most is not None and lag >= most:
            text = (
                f"{so_many(lag, 'message waits', 'messages wait')}; the rule says {most:,}. {see}"
            )
            yield Condition(NoticeKind.LAG, name, text)
        longest = rules.of(NoticeKind.OLDEST, queue=name).longer_than_seconds
        if longest is not None and oldest > longest:
            text = (
                f"The oldest of {so_many(lag, 'message')} has waited for {rough(round(oldest))}, "
                f"longer than {written(longest)}. {see}"
            )
            yield Condition(NoticeKind.OLDEST, name, text)


def bursts(cursor: Cursor, rules: RuleBook) -> Iterator[Condition]:
    """Queues of which many messages were held within a short time."""
    for window in rules.windows(NoticeKind.HOLD_BURST):
        cursor.execute(_HELD, (window,))
        for name, causes in _by_queue(cursor.fetchall()).items():
            setting = rules.of(NoticeKind.HOLD_BURST, queue=name)
            count = causes.total()
            if setting.window_seconds == window and _is_over(count, setting.at_least):
                held = so_many(count, "message was", "messages were")
                text = f"{held} held within {written(window)}. {_often(causes)}"
                yield Condition(NoticeKind.HOLD_BURST, name, text)


def failures(cursor: Cursor, rules: RuleBook) -> Iterator[Condition]:
    """Queues of which many messages failed within a short time, together or by one cause."""
    codes = rules.codes()
    for window in rules.windows(NoticeKind.FAILURES):
        cursor.execute(_FAILED, {"window": window})
        for name, causes in _by_queue(cursor.fetchall()).items():
            yield from _failed(rules, name, window, {"": causes.total()}, _often(causes))
            watched = {code: causes[code] for code in codes & causes.keys()}
            yield from _failed(rules, name, window, watched, "")


def _failed(
    rules: RuleBook, name: str, window: int, counts: Mapping[str, int], more: str
) -> Iterator[Condition]:
    for code, count in sorted(counts.items()):
        setting = rules.of(NoticeKind.FAILURES, queue=name, code=code)
        if setting.window_seconds == window and _is_over(count, setting.at_least):
            by = f" by {code}" if code else " for the first time"
            text = f"{so_many(count, 'message')} failed{by} within {written(window)}. {more}"
            subject = cause_subject(name, code) if code else name
            yield Condition(NoticeKind.FAILURES, subject, text.strip(), name)


def _by_queue(rows: Sequence[Any]) -> Mapping[str, Counter[str]]:
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    for name, code, count in rows:
        causes[name][code] += count
    return causes


def _is_over(count: int, threshold: int | None) -> bool:
    return threshold is not None and count >= threshold


def _often(causes: Counter[str]) -> str:
    [(code, count)] = causes.most_common(1)
    return f"Most often: {code} ({count:,})."
