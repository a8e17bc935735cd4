"""Every read the console needs about notices: those that are open, and what was over lately."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Q, QuerySet

from crontasks.models import Notice, NoticeDelivery, NoticeRecipient, NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS, OF_SCHEDULES
from crontasks.notices import rules, telling
from integration.models import Queue
from integration.selectors.scope import EVERYTHING, Scope
from integration.selectors.setup.nouns import Use

OPEN_SHOWN: Final = 100
OVER_SHOWN: Final = 50
EVERYBODY: Final = "SLUICE_NOTIFY_EMAILS"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRow:
    """One notice. `told` heard of it; `waiting` are those to whom it is still to be sent.

    `given_up` are those who did not take it for a day, `problem` is why one of them did not.
    `is_silent`: the rules tell nobody.
    """

    notice: Notice
    title: str
    queue: str
    is_urgent: bool
    is_silent: bool
    told: tuple[str, ...]
    waiting: tuple[str, ...]
    given_up: tuple[str, ...]
    problem: str
    snoozed_until: datetime | None

    @property
    def id(self) -> int:
        return self.notice.pk

    @property
    def is_of_schedule(self) -> bool:
        return self.notice.kind in OF_SCHEDULES


@dataclass(frozen=True, slots=True)
class NoticePage:
    """Open notices, urgent ones first, and the newest that are over. `more` are not shown."""

    open: Sequence[NoticeRow]
    more: int
    over: Sequence[NoticeRow]
    kinds: Sequence[tuple[str, str, int]]


def page(scope: Scope = EVERYTHING, kind: str = "") -> NoticePage:
    """The notices that this person may know of, of one kind or all, in a few statements."""
    known = _known(scope)
    counted = known.filter(closed_at__isnull=True).order_by().values("kind")
    kinds = [
        (row["kind"], str(NoticeKind(row["kind"]).label), int(row["count"]))
        for row in counted.annotate(count=Count("pk")).order_by("kind")
    ]
    wanted = known.filter(kind=kind) if kind else known
    urgent = [str(one) for one, facts in FACTS.items() if facts.is_urgent]
    every = wanted.filter(closed_at__isnull=True)
    first = list(every.filter(kind__in=urgent)[:OPEN_SHOWN])
    first += every.exclude(kind__in=urgent)[: OPEN_SHOWN - len(first)]
    over = list(wanted.filter(closed_at__isnull=False).order_by("-closed_at")[:OVER_SHOWN])
    found = rows([*first, *over])
    total = sum(count for name, _, count in kinds if kind in {"", name})
    return NoticePage(found[: len(first)], total - len(first), found[len(first) :], tuple(kinds))


def one(notice_id: int, scope: Scope = EVERYTHING) -> NoticeRow | None:
    """One notice; None where there is none, or none that this person may know of."""
    found = list(_known(scope).filter(pk=notice_id))
    return rows(found)[0] if found else None


def rows(notices: Sequence[Notice]) -> list[NoticeRow]:
    """What is shown of these notices, which were read with their queues."""
    deliveries: dict[int, list[NoticeDelivery]] = defaultdict(list)
    ids = [notice.pk for notice in notices]
    for delivery in NoticeDelivery.with_names().filter(notice__in=ids):
        deliveries[delivery.notice_id].append(delivery)
    book = rules.load()
    return [_row(notice, deliveries[notice.pk], book) for notice in notices]


def _row(notice: Notice, deliveries: Sequence[NoticeDelivery], book: rules.RuleBook) -> NoticeRow:
    kind = NoticeKind(notice.kind)
    unsent = [one for one in deliveries if one.sent_at is None]
    return NoticeRow(
        notice=notice,
        title=str(kind.label),
        queue=notice.queue.name if notice.queue is not None else "",
        is_urgent=FACTS[kind].is_urgent,
        is_silent=not telling.setting_of(notice, book).is_on,
        told=_names(one for one in deliveries if one.sent_at is not None),
        waiting=_names(one for one in unsent if one.next_at is not None),
        given_up=_names(one for one in unsent if one.next_at is None),
        problem=next((one.problem for one in unsent if one.problem), ""),
        snoozed_until=notice.snoozed_until,
    )


def _names(deliveries: Iterable[NoticeDelivery]) -> tuple[str, ...]:
    names = (one.recipient.name if one.recipient is not None else EVERYBODY for one in deliveries)
    return tuple(dict.fromkeys(names))


def _known(scope: Scope) -> QuerySet[Notice]:
    """What is about no queue is for those whom nothing limits."""
    return Notice.objects.filter(scope.within("queue__system")).select_related("queue")


def rules_of(scope: Scope = EVERYTHING) -> QuerySet[NoticeRule]:
    """Rules by name; those of other systems are hidden from limited people."""
    every = NoticeRule.objects.select_related("system", "queue").order_by("name")
    if scope.is_whole:
        return every
    return every.filter(scope.within("system") | scope.within("queue__system"))


def recipients(scope: Scope = EVERYTHING) -> QuerySet[NoticeRecipient]:
    """Recipients by name, with what waits for each; none for limited people, who share none."""
    waiting = Count(
        "deliveries",
        filter=Q(deliveries__sent_at__isnull=True, deliveries__next_at__isnull=False),
    )
    every = NoticeRecipient.objects.annotate(waiting=waiting).order_by("name")
    return every if scope.is_whole else every.none()


def uses_of_recipient(recipient: NoticeRecipient, _scope: Scope) -> list[Use]:
    """The rules that name it."""
    return [Use("noticerule", rule.pk, str(rule), "tells it") for rule in recipient.rules()]


def last_problem(recipient: NoticeRecipient) -> str:
    """Why the last message to it was not taken, if that one still waits."""
    unsent = recipient.deliveries.filter(sent_at__isnull=True, next_at__isnull=False)
    waiting = unsent.exclude(problem="")
    return waiting.order_by("-id").values_list("problem", flat=True).first() or ""


def queues_of(scope: Scope) -> QuerySet[Queue]:
    """The queues that a rule may be about."""
    return Queue.objects.filter(scope.within("system")).order_by("name")
