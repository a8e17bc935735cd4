"""Decides who is told of what, as the rules say; what is sent stands in deliveries."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db.models import Q

from crontasks.leadership import ended_if_stopped
from crontasks.models import Notice, NoticeDelivery, NoticeRecipient
from crontasks.models.notice import NoticeKind
from crontasks.notices import rules
from crontasks.notices.condition import code_of
from crontasks.notices.rules import RuleBook, Setting
from crontasks.notices.sending import UNSENT
from integration.store.sessions import database_time

# More are decided about in the next look.
MOST: Final = 20_000
ROWS: Final = 1_000
UNDECIDED: Final = Q(told_at__isnull=True, decided_at__isnull=True)
Event = NoticeDelivery.Event
# None stands for the addresses of SLUICE_NOTIFY_EMAILS.
Recipients = Collection[int | None]
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """Who is told what of one notice."""

    notice: Notice
    event: NoticeDelivery.Event
    recipients: Recipients
    repeat_seconds: int


def decide(kinds: Collection[NoticeKind]) -> int:
    """Decide about every notice of these kinds that something is to be told of; how many.

    One transaction writes decisions and deliveries: whoever dies in between tells nothing twice and
    forgets nothing. Of two that look at once, each decides about the rows that it locks.
    """
    with ended_if_stopped():
        now = database_time()
        again = Q(closed_at__isnull=True, acknowledged_at__isnull=True, again_at__lte=now)
        rows = Notice.objects.filter(UNDECIDED | again, kind__in=list(kinds))
        locked = rows.select_for_update(skip_locked=True, of=("self",)).select_related("queue")
        notices = list(locked.order_by("opened_at", "pk")[:MOST])
        if not notices:
            return 0
        decisions = list(_decisions(notices, rules.load(), now))
        _write(decisions, now)
    for decision in decisions:
        _log(decision)
    return len(decisions)


def _decisions(notices: Sequence[Notice], book: RuleBook, now: datetime) -> Iterator[Decision]:
    heard = _heard(notice.pk for notice in notices if notice.closed_at is not None)
    waiting = _waiting(notice.pk for notice in notices if notice.again_at is not None)
    known = dict(NoticeRecipient.objects.filter(enabled=True).values_list("name", "pk"))
    for notice in notices:
        setting = setting_of(notice, book)
        if notice.closed_at is not None:
            if not setting.is_quiet(now):
                # An end is told to those who heard of the beginning.
                yield Decision(notice, Event.OVER, heard[notice.pk], 0)
        elif _is_time(notice, setting, now):
            event = Event.BEGUN if notice.decided_at is None else Event.AGAIN
            repeat = 0 if notice.acknowledged_at else setting.repeat_seconds
            told = [to for to in _told(setting, known) if to not in waiting[notice.pk]]
            yield Decision(notice, event, told, repeat)


def setting_of(notice: Notice, book: RuleBook) -> Setting:
    """What holds for a notice; its queue has to be read with it."""
    kind = NoticeKind(notice.kind)
    queue = notice.queue.name if notice.queue is not None else ""
    return book.of(kind, notice.subject, queue, code_of(kind, notice.subject))


def _is_time(notice: Notice, setting: Setting, now: datetime) -> bool:
    is_young = notice.opened_at + timedelta(seconds=setting.after_seconds) > now
    is_snoozed = notice.snoozed_until is not None and notice.snoozed_until > now
    return not (is_young or is_snoozed or setting.is_quiet(now))


def _told(setting: Setting, known: Mapping[str, int]) -> Recipients:
    if not setting.is_on:
        return ()
    if setting.recipients:
        return [known[name] for name in setting.recipients if name in known]
    return (None,) if settings.SLUICE_NOTIFY_EMAILS else ()


def _heard(ids: Iterator[int]) -> Mapping[int, set[int | None]]:
    """Who was told of these, or may have been: their deliveries that were begun."""
    heard: dict[int, set[int | None]] = defaultdict(set)
    begun = NoticeDelivery.objects.filter(notice__in=list(ids)).exclude(event=Event.OVER)
    for notice, recipient in begun.values_list("notice", "recipient"):
        heard[notice].add(recipient)
    return heard


def _waiting(ids: Iterator[int]) -> Mapping[int, set[int | None]]:
    """Whom something of these is still to be sent: no reminder is put behind it."""
    waiting: dict[int, set[int | None]] = defaultdict(set)
    # One that was given up is not: who missed the beginning hears of it by the reminder.
    unsent = NoticeDelivery.objects.filter(UNSENT, notice__in=list(ids))
    for notice, recipient in unsent.values_list("notice", "recipient"):
        waiting[notice].add(recipient)
    return waiting


def _write(decisions: Sequence[Decision], now: datetime) -> None:
    deliveries = [
        NoticeDelivery(
            notice=one.notice, recipient_id=to, event=one.event, created_at=now, next_at=now
        )
        for one in decisions
        for to in one.recipients
    ]
    NoticeDelivery.objects.bulk_create(deliveries, batch_size=ROWS)
    # Those alike are written in one statement.
    alike: dict[tuple[bool, int], list[int]] = defaultdict(list)
    for one in decisions:
        # The end of what nobody was told of, or what the rules tell nobody: the log has it.
        is_told = not one.recipients and one.event is not Event.AGAIN
        alike[is_told, one.repeat_seconds].append(one.notice.pk)
    for (is_told, repeat), ids in alike.items():
        again = now + timedelta(seconds=repeat) if repeat else None
        told = {"told_at": now} if is_told else {}
        Notice.objects.filter(pk__in=ids).update(decided_at=now, again_at=again, **told)


def _log(decision: Decision) -> None:
    notice = decision.notice
    if decision.event is Event.AGAIN:
        return
    is_over = decision.event is Event.OVER
    logger.log(
        logging.INFO if is_over else logging.WARNING,
        "notice over" if is_over else "notice",
        extra={"kind": notice.kind, "subject": notice.subject, "text": notice.text},
    )
