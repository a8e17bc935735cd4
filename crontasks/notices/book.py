"""The book of notices: conditions are opened when they begin and closed when they are over."""

import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, Q, Value
from django.db.models.functions import Concat

from crontasks.leadership import Term, ended_if_stopped
from crontasks.models import CronInstance, Notice, NoticeDelivery
from crontasks.models.notice import ASKED_FOR, ASKERS, NoticeKind
from crontasks.notices import sending, telling
from crontasks.notices.condition import Condition
from integration.models import Queue
from integration.selectors.deployment import foreign_environment
from integration.store.sessions import database_now

logger = logging.getLogger(__name__)
# So many rows go into one statement.
ROWS = 1_000


def settle(
    present: Iterable[Condition],
    kinds: Collection[NoticeKind],
    send: Callable[[], None] = sending.send_due,
    *,
    term: Term | None = None,
) -> None:
    """Open what is new, close what is over (of these `kinds` only), decide who is told, send.

    What is known of providers and connections is written by those who ask them (`keep`) and only
    told here; where nobody asks any more, it is left. `send` sends what is due, or has it sent. A
    copy has the notices of its original: they are not its own to end, and it tells of nothing but
    what it is. Of a leader whose `term` is over nothing counts: another one has looked since.
    """
    is_copy = foreign_environment() is not None
    if is_copy:
        present = [condition for condition in present if condition.kind is NoticeKind.COPY]
        kinds = {NoticeKind.COPY}.intersection(kinds)
    present = list(present)
    with ended_if_stopped() as cursor:
        if term is not None and not term.lasts(cursor):
            logger.warning("what was seen is dropped: another one leads by now")
            return
        keep(present, kinds, ~ASKED_FOR)
        if not is_copy:
            _leave_unasked()
    telling.decide(kinds)
    send()


def keep(present: Iterable[Condition], kinds: Collection[NoticeKind], about: Q) -> None:
    """Open what is new and close what is over, of these `kinds` and subjects; tells nobody.

    The number of statements grows by one for a thousand notices.
    """
    now = {(condition.kind, condition.subject): condition for condition in present}
    open_notices = Notice.objects.filter(about, closed_at__isnull=True, kind__in=list(kinds))
    noticed = {(NoticeKind(notice.kind), notice.subject): notice for notice in open_notices}
    _open([condition for key, condition in now.items() if key not in noticed])
    _close([notice.pk for key, notice in noticed.items() if key not in now])
    changed = []
    for key, notice in noticed.items():
        if key in now and notice.text != now[key].text:
            notice.text = now[key].text
            changed.append(notice)
    Notice.objects.bulk_update(changed, ["text"], batch_size=ROWS)


def of_blocks(queues: Iterable[str]) -> dict[str, Notice]:
    """Map queues to the open notice of their block, in one query; none without any queue."""
    names = set(queues)
    if not names:
        return {}
    notices = Notice.objects.filter(kind=NoticeKind.BLOCKED, closed_at__isnull=True)
    told = Prefetch("deliveries", NoticeDelivery.with_names())
    blocks: dict[str, Notice] = {}
    for notice in notices.order_by("opened_at").prefetch_related(told):
        # A partition's subject is "queue[0]", that of a strict outbound queue its name alone.
        name = notice.subject.partition("[")[0]
        if name in names:
            blocks.setdefault(name, notice)
    return blocks


def _open(begun: Collection[Condition]) -> None:
    if not begun:
        return
    at = database_now()
    names = {condition.queue_name for condition in begun} - {""}
    queues = dict(Queue.objects.filter(name__in=names).values_list("name", "pk"))
    rows = [
        Notice(
            kind=one.kind,
            subject=one.subject,
            text=one.text,
            queue_id=queues.get(one.queue_name),
            opened_at=at,
        )
        for one in begun
    ]
    # Two watches may look at the same time; the partial unique index lets one of them in.
    Notice.objects.bulk_create(rows, ignore_conflicts=True, batch_size=ROWS)


def _leave_unasked() -> None:
    """Close what nobody will ever end, as the cron task that asks is not active; tells nobody.

    It may last: to say that it is over would be a guess.
    """
    asked_for = Notice.objects.filter(ASKED_FOR, closed_at__isnull=True)
    if not asked_for.exists():
        return
    active = set(CronInstance.objects.filter(active=True).values_list("task", flat=True))
    for task in ASKERS.keys() - active:
        mine = list(asked_for.filter(ASKERS[task]).values_list("pk", flat=True))
        untold = NoticeDelivery.objects.filter(sent_at__isnull=True, taken_at__isnull=True)
        untold.filter(notice__in=mine).delete()
        why = f" Whether this is over is not known: {task} is not active, and nobody else asks."
        ends: dict[str, Any] = dict.fromkeys(("closed_at", "decided_at", "told_at"), database_now())
        rows = Notice.objects.filter(pk__in=mine, closed_at__isnull=True)
        rows.update(**ends, again_at=None, text=Concat("text", Value(why)))


def _close(over: Collection[int]) -> None:
    """An end whose beginning nobody can have heard of needs no message either.

    What another watch has closed by now is that one's: it may have decided who hears of the end.
    """
    if not over:
        return
    with transaction.atomic():
        still_open = Notice.objects.filter(pk__in=over, closed_at__isnull=True)
        mine = list(still_open.select_for_update().order_by("pk").values_list("pk", flat=True))
        deliveries = NoticeDelivery.objects.filter(notice__in=mine)
        deliveries.filter(sent_at__isnull=True, taken_at__isnull=True).delete()
        heard = deliveries.values("notice")
        rows, at = Notice.objects.filter(pk__in=mine, closed_at__isnull=True), database_now()
        unheard = rows.filter(told_at__isnull=True).exclude(pk__in=heard)
        unheard.update(closed_at=at, decided_at=at, told_at=at, again_at=None)
        rows.update(closed_at=at, decided_at=None, told_at=None, again_at=None)
