"""What a rule would have done in the last seven days, as far as the past is kept."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from math import inf
from operator import itemgetter
from typing import Final

from django.db.models import DurationField, ExpressionWrapper, F, Min, Q
from django.db.models.functions import Coalesce, Now

from crontasks.models import LagSample, Notice, NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.notices.lag_samples import EVERY_SECONDS
from crontasks.notices.rules import RuleBook, Setting
from integration.models import ExternalSystem, Queue
from integration.selectors.scope import EVERYTHING, Scope
from integration.store.sessions import database_time, fetch_all

WEEK: Final = timedelta(days=7)
SHOWN: Final = 5
# A look may come so late after the one before.
LATE_SECONDS: Final = EVERY_SECONDS / 2
# More failures than these are not looked at: a page does not wait for them.
MOST_ROWS: Final = 200_000
# From a failure on there are enough until the first of so many leaves the window.
_FAILED: Final = """
    SELECT q.name, extract(epoch FROM e.at)::float8, extract(epoch FROM e.first)::float8
    FROM (SELECT f.queue_id, f.{column} AS at, lag(f.{column}, %(least)s - 1) OVER (
            PARTITION BY f.queue_id ORDER BY f.{column}) AS first
          FROM (SELECT * FROM integration_messageerror f
                WHERE f.last_failed_at > %(since)s AND f.queue_id = ANY(%(queues)s){more}
                ORDER BY f.last_failed_at DESC LIMIT %(most)s) f
          WHERE f.{column} > %(since)s) e
    JOIN integration_queue q ON q.id = e.queue_id
    WHERE e.at - e.first <= make_interval(secs => %(window)s)
    ORDER BY 1, 2"""


@dataclass(frozen=True, slots=True)
class Preview:
    """How often it would have been noticed, by queue, and since when the past is known.

    `basis` says what it was reckoned from; `why_not` why nothing can be said. `is_whole`: the past
    is known for all seven days, but for an hour.
    """

    times: int = 0
    since: datetime | None = None
    first: Sequence[tuple[str, int]] = ()
    basis: str = ""
    why_not: str = ""
    is_on: bool = True
    is_whole: bool = False


def preview(rule: NoticeRule, scope: Scope = EVERYTHING) -> Preview:
    """Try a rule, saved or not, on the last seven days; nothing is stored.

    With what wider rules say of what it leaves empty. Notices that lasted shorter than the time
    after which it tells do not count.
    """
    if not rule.kind:
        return Preview(why_not="Choose one kind: rules for every kind have no threshold to try.")
    kind = NoticeKind(rule.kind)
    setting = _book_with(rule).of(kind, queue=_name_of(rule), code=rule.code)
    queues = _queues(rule, scope)
    since = database_time() - WEEK
    match kind:
        case NoticeKind.LAG | NoticeKind.OLDEST:
            return _of_samples(kind, setting, queues, since)
        case NoticeKind.FAILURES | NoticeKind.HOLD_BURST:
            return _of_failures(kind, setting, queues, (since, rule.code))
        case _:
            return _of_notices(kind, rule, setting, queues)


def _book_with(rule: NoticeRule) -> RuleBook:
    """The rules as they would be with this one."""
    others = NoticeRule.objects.select_related("queue").exclude(pk=rule.pk)
    systems: dict[str, int] = {}
    if rule.queue is not None and rule.queue.system_id is not None:
        systems[rule.queue.name] = rule.queue.system_id
    elif rule.system is not None:
        # Any queue of the system stands for all that have no rule of their own.
        systems[_name_of(rule)] = rule.system.pk
    return RuleBook([*others, rule], systems)


def _name_of(rule: NoticeRule) -> str:
    if rule.queue is not None:
        return rule.queue.name
    return f"a queue of system {rule.system_id}" if rule.system_id is not None else ""


def _queues(rule: NoticeRule, scope: Scope) -> list[int]:
    queues = Queue.objects.filter(scope.within("system"))
    if rule.queue_id is not None:
        queues = queues.filter(pk=rule.queue_id)
    if rule.system_id is not None:
        queues = queues.filter(system=ExternalSystem(pk=rule.system_id))
    return list(queues.values_list("pk", flat=True))


def _of_samples(
    kind: NoticeKind, setting: Setting, queues: Sequence[int], since: datetime
) -> Preview:
    is_lag = kind is NoticeKind.LAG
    threshold = setting.at_least if is_lag else setting.longer_than_seconds
    if threshold is None:
        return Preview(why_not="Enter how many messages are too many.")
    begun = LagSample.objects.filter(queue=None, at__gt=since).aggregate(first=Min("at"))["first"]
    over = Q(lag__gte=threshold) if is_lag else Q(oldest_seconds__gt=threshold)
    rows = LagSample.objects.filter(over, at__gt=since, queue__in=queues)
    found = rows.order_by("queue__name", "at").values_list("queue__name", "at")
    least = max(setting.after_seconds, 0)
    counts = [
        (name, _stretches(_until_the_next(at.timestamp() for _, at in each), least, LATE_SECONDS))
        for name, each in groupby(found, itemgetter(0))
    ]
    basis = "what waited, written down every five minutes"
    return _told(counts, begun, basis, setting)


def _of_failures(
    kind: NoticeKind, setting: Setting, queues: Sequence[int], past: tuple[datetime, str]
) -> Preview:
    since, code = past
    window = setting.window_seconds or 600
    if setting.at_least is None:
        return Preview(why_not="Enter how many messages are too many.")
    more = " AND f.state = 'HOLD'" if kind is NoticeKind.HOLD_BURST else ""
    more += " AND f.code = %(code)s" if code else ""
    column = "last_failed_at" if kind is NoticeKind.HOLD_BURST else "first_failed_at"
    parts = fetch_all(
        _FAILED.format(column=column, more=more),
        {
            "window": window,
            "since": since,
            "queues": list(queues),
            "most": MOST_ROWS,
            "least": setting.at_least,
            "code": code,
        },
    )
    counts = [
        (name, _stretches(((at, first + window) for _, at, first in each), setting.after_seconds))
        for name, each in groupby(parts, itemgetter(0))
    ]
    basis = "the failures that are kept; cleanup removes closed ones"
    return _told(counts, since, basis, setting)


def _of_notices(
    kind: NoticeKind, rule: NoticeRule, setting: Setting, queues: Sequence[int]
) -> Preview:
    since = database_time() - WEEK
    lasted = ExpressionWrapper(
        Coalesce("closed_at", Now()) - F("opened_at"), output_field=DurationField()
    )
    rows = Notice.objects.filter(kind=kind, opened_at__gt=since).annotate(lasted=lasted)
    rows = rows.filter(lasted__gte=timedelta(seconds=setting.after_seconds))
    if rule.queue_id is not None or rule.system_id is not None:
        rows = rows.filter(queue__in=queues)
    names: dict[str, int] = {}
    for subject in rows.order_by("subject").values_list("subject", flat=True):
        names[subject] = names.get(subject, 0) + 1
    basis = "notices that there were, with the thresholds of then"
    return _told(list(names.items()), since, basis, setting)


def _told(
    counts: Sequence[tuple[str, int]], since: datetime | None, basis: str, setting: Setting
) -> Preview:
    most_first = sorted((one for one in counts if one[1]), key=lambda one: (-one[1], one[0]))
    whole_since = database_time() - WEEK + timedelta(hours=1)
    return Preview(
        times=sum(count for _, count in most_first),
        since=since,
        first=most_first[:SHOWN],
        basis=basis,
        is_on=setting.is_on,
        is_whole=since is not None and since <= whole_since,
    )


def _until_the_next(moments: Iterable[float]) -> Iterator[tuple[float, float]]:
    """From each look until the next."""
    return ((moment, moment + EVERY_SECONDS) for moment in moments)


def _stretches(
    spans: Iterable[tuple[float, float]], least_seconds: float, slack_seconds: float = 0.0
) -> int:
    """Count what is left of spans, sorted by their begin, once those that overlap are one.

    Those that are no farther than the slack from each other are one, too. Only what lasts long
    enough counts.

    >>> spans = [(0, 400), (300, 700), (3000, 3400)]
    >>> _stretches(spans, 0), _stretches(spans, 500)
    (2, 1)
    """
    found, begun, end = 0, 0.0, -inf
    for first, last in spans:
        if first <= end + slack_seconds:
            end = max(end, last)
            continue
        found += begun <= end and end - begun >= least_seconds
        begun, end = first, last
    return found + (begun <= end and end - begun >= least_seconds)
