"""Sends what was decided: everything due to one recipient is one message.

At least once: a message that was sent when its sender died is sent again under the same id.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from crontasks.leadership import ended_if_stopped
from crontasks.models import Notice, NoticeDelivery, NoticeRecipient
from crontasks.models.notice import NoticeKind
from crontasks.notices import ways
from crontasks.notices.messages import NAMED, Message, Told
from crontasks.notices.ways import Failure
from integration.models.fields import SecretUnreadableError
from integration.selectors.deployment import foreign_environment
from integration.store.sessions import database_time

# Who was told so many notices within a minute is told of the next ones together, after it.
MOST_A_MINUTE: Final = 5
MINUTE: Final = timedelta(minutes=1)
# What its sender has not settled by then, nobody will: the next one sends it again.
LEASE: Final = timedelta(minutes=2)
FIRST_PAUSE_SECONDS: Final = 5
LONGEST_PAUSE_SECONDS: Final = 900
GIVE_UP_AFTER: Final = timedelta(days=1)
# Below the console's address.
NOTICES: Final = "notices/"
PROBLEM_LENGTH: Final = 300
UNSENT: Final = Q(sent_at__isnull=True, next_at__isnull=False)
Event = NoticeDelivery.Event
logger = logging.getLogger(__name__)


class Batch(NamedTuple):
    """Deliveries that are one message, and which try of it this is.

    `may_have_arrived` speaks of the tries before: one of them came to no certain end.
    """

    message: UUID
    ids: Sequence[int]
    tries: int
    may_have_arrived: bool


def send_due() -> None:
    """Send all that is due, one recipient after the other."""
    for recipient in due_recipients():
        send_to(recipient)


def due_recipients() -> list[int | None]:
    """Whom something is due to; None stands for SLUICE_NOTIFY_EMAILS."""
    due = NoticeDelivery.objects.filter(UNSENT, _own(), next_at__lte=database_time())
    return list(due.order_by().values_list("recipient", flat=True).distinct())


def send_to(recipient_id: int | None) -> bool:
    """Send what is due to one recipient; whether a message was sent."""
    batch = take(recipient_id)
    if batch is None:
        return False
    recipient = None
    try:
        if recipient_id is not None:
            recipient = NoticeRecipient.objects.filter(pk=recipient_id).first()
    except SecretUnreadableError as unreadable:
        _try_later(batch, Failure(str(unreadable)), None)
        return False
    if recipient_id is not None and (recipient is None or not recipient.enabled):
        rows = NoticeDelivery.objects.filter(pk__in=batch.ids)
        _leave(rows, None, batch, Failure("The recipient is switched off."))
        return False
    failure = _sent(recipient, message_of(batch))
    if failure is not None:
        _try_later(batch, failure, recipient)
        return False
    settle(batch)
    return True


def take(recipient_id: int | None) -> Batch | None:
    """Make what is due one message, or take the one that was not sent before; None for nothing.

    Committed before anything is sent. While a message of this recipient waits for its next try,
    what is new waits behind it: a receiver that is away is not asked more often for it.
    """
    with ended_if_stopped():
        now = database_time()
        mine = _of(recipient_id).filter(UNSENT, _own())
        formed = mine.filter(message__isnull=False).order_by("next_at", "id").first()
        if formed is not None:
            if formed.next_at is None or formed.next_at > now:
                return None
            message, rows = formed.message, mine.filter(message=formed.message)
        else:
            if _told_lately(recipient_id, now) >= MOST_A_MINUTE:
                return None
            message, rows = uuid4(), mine.filter(message__isnull=True)
        due = rows.filter(next_at__lte=now).select_for_update(skip_locked=True)
        taken = list(due.values_list("pk", "tries", "taken_at"))
        if not taken or message is None:
            return None
        ids = [number for number, _, _ in taken]
        NoticeDelivery.objects.filter(pk__in=ids).update(
            message=message, taken_at=now, next_at=now + LEASE, tries=F("tries") + 1
        )
        tried = max(tries for _, tries, _ in taken)
        return Batch(message, ids, tried + 1, any(at is not None for _, _, at in taken))


def message_of(batch: Batch) -> Message:
    """The message that these deliveries make; three statements, however many they are."""
    rows = NoticeDelivery.objects.filter(pk__in=batch.ids)
    first = rows.select_related("notice__queue").order_by("notice__opened_at", "id")[:NAMED]
    counted = rows.order_by().values("notice__kind").annotate(count=Count("pk"))
    titles = [
        (str(NoticeKind(row["notice__kind"]).label), int(row["count"]))
        for row in counted.order_by("-count", "notice__kind")
    ]
    return Message(
        id=batch.message,
        deployment=settings.SLUICE_DEPLOYMENT,
        told=[_told(row) for row in first],
        count=sum(count for _, count in titles),
        titles=titles,
        link=_page(NOTICES),
    )


def settle(batch: Batch) -> None:
    """Write down that a message was taken, and that its notices were heard of."""
    with transaction.atomic():
        now = database_time()
        rows = NoticeDelivery.objects.filter(pk__in=batch.ids)
        rows.update(sent_at=now, problem="")
        # Of a notice that ended meanwhile, the end is still to be told.
        for event, is_over in ((Event.BEGUN, False), (Event.OVER, True)):
            about = rows.filter(event=event).values("notice")
            heard = Notice.objects.filter(pk__in=about, closed_at__isnull=not is_over)
            heard.filter(told_at__isnull=True).update(told_at=now)


def send_test(recipient: NoticeRecipient) -> str:
    """Send a test now; why it failed, or empty."""
    message = Message(
        id=uuid4(),
        deployment=settings.SLUICE_DEPLOYMENT,
        told=(),
        count=0,
        is_test=True,
        link=_page(NOTICES),
    )
    failure = _sent(recipient, message)
    return failure.text if failure is not None else ""


def _sent(recipient: NoticeRecipient | None, message: Message) -> Failure | None:
    """Send it; why that failed, or None."""
    at = database_time()
    try:
        return ways.send(recipient, message, at)
    except Exception as problem:
        # Whatever it is: left to its lease, it would be sent every two minutes for ever, with
        # everything later behind it.
        logger.exception("a way to a recipient failed")
        text = f"It could not be sent ({type(problem).__name__}); the server's log says more."
        return Failure(text, may_have_arrived=True)


def _own() -> Q:
    """What its original had still to send is not a copy's to send."""
    return Q() if foreign_environment() is None else Q(notice__kind=NoticeKind.COPY)


def _of(recipient_id: int | None) -> QuerySet[NoticeDelivery]:
    every = NoticeDelivery.objects.all()
    if recipient_id is None:
        return every.filter(recipient__isnull=True)
    return every.filter(recipient=recipient_id)


def _told_lately(recipient_id: int | None, now: datetime) -> int:
    return _of(recipient_id).filter(sent_at__gt=now - MINUTE)[:MOST_A_MINUTE].count()


def _told(row: NoticeDelivery) -> Told:
    notice = row.notice
    return Told(
        number=notice.pk,
        event=row.event,
        kind=notice.kind,
        title=notice.get_kind_display(),
        subject=notice.subject,
        queue=notice.queue.name if notice.queue is not None else "",
        text=notice.text,
        opened_at=notice.opened_at,
        closed_at=notice.closed_at if row.event == Event.OVER else None,
        link=_page(NOTICES if notice.queue is None else f"queues/{notice.queue.name}/"),
    )


def _page(path: str) -> str:
    """The address of a page of the console, or empty: no request tells where it is."""
    return f"{settings.SLUICE_CONSOLE_URL}/{path}" if settings.SLUICE_CONSOLE_URL else ""


def _try_later(batch: Batch, failure: Failure, recipient: NoticeRecipient | None) -> None:
    name = recipient.name if recipient is not None else "SLUICE_NOTIFY_EMAILS"
    logger.warning("a notice could not be sent", extra={"recipient": name, "error": failure.text})
    doubled = FIRST_PAUSE_SECONDS * 2 ** min(batch.tries - 1, 20)
    pause = timedelta(seconds=min(doubled, LONGEST_PAUSE_SECONDS))
    with transaction.atomic():
        now = database_time()
        rows = NoticeDelivery.objects.filter(pk__in=batch.ids)
        given_up = _leave(rows.filter(created_at__lt=now - GIVE_UP_AFTER), None, batch, failure)
        waiting = rows.filter(next_at__isnull=False)
        _leave(waiting, now + pause, batch, failure)
        if given_up:
            # What is left says less: a receiver that may have it all must not drop this as a
            # repeat. As a message it keeps its place, with what is new behind it.
            waiting.update(message=uuid4())


def _leave(
    rows: QuerySet[NoticeDelivery], until: datetime | None, batch: Batch, failure: Failure
) -> int:
    """Leave these unsent until then, or for ever; how many they are.

    Who may have heard of a beginning is still to hear of its end: a later refusal changes nothing.
    """
    if not (failure.may_have_arrived or batch.may_have_arrived):
        rows.update(taken_at=None)
    return rows.update(next_at=until, problem=failure.text[:PROBLEM_LENGTH])
