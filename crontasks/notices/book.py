"""The book of notices: each condition is sent once when it begins and once when it is over."""

import logging
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final, NamedTuple

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q

from crontasks.models import Notice
from crontasks.models.notice import (
    ABOUT_CONNECTIONS,
    ABOUT_PROVIDERS,
    ASKED_FOR,
    NoticeKind,
)
from integration.store.sessions import database_now

logger = logging.getLogger(__name__)


class Condition(NamedTuple):
    """Something that is so right now: of which subject, why, and what to do about it."""

    kind: NoticeKind
    subject: str
    text: str


# A broker that restarts is nobody's mail: so long a provider has to be away before a mail.
PROVIDER_PATIENCE: Final = timedelta(seconds=30)
# Connections are asked every minute: what only one look met is nobody's mail either.
CONNECTION_PATIENCE: Final = timedelta(seconds=90)


def settle(present: Iterable[Condition], kinds: Collection[NoticeKind]) -> None:
    """Open what is new, close what is over (of these `kinds` only), tell what nobody has heard of.

    What is known of providers and connections is written by those who ask them (`keep`) and only
    sent here.
    """
    keep(present, kinds, ~ASKED_FOR)
    now, is_open = database_now(), Q(closed_at__isnull=True)
    young = ABOUT_PROVIDERS & Q(opened_at__gt=now - PROVIDER_PATIENCE)
    young |= ABOUT_CONNECTIONS & Q(opened_at__gt=now - CONNECTION_PATIENCE)
    untold = Notice.objects.filter(told_at__isnull=True, kind__in=list(kinds))
    for notice in untold.exclude(young & is_open):
        _tell(notice)


def keep(present: Iterable[Condition], kinds: Collection[NoticeKind], about: Q) -> None:
    """Open what is new and close what is over, of these `kinds` and subjects; tells nobody."""
    now = {(condition.kind, condition.subject): condition for condition in present}
    open_notices = Notice.objects.filter(about, closed_at__isnull=True, kind__in=list(kinds))
    noticed = {(NoticeKind(notice.kind), notice.subject): notice for notice in open_notices}
    begun = [condition for key, condition in now.items() if key not in noticed]
    # Two watches may look at the same time; the partial unique index lets one of them in.
    Notice.objects.bulk_create(
        [Notice(**new._asdict(), opened_at=database_now()) for new in begun], ignore_conflicts=True
    )
    for key, notice in noticed.items():
        if key not in now:
            _close(notice)
        elif notice.text != now[key].text:
            Notice.objects.filter(pk=notice.pk).update(text=now[key].text)


def of_blocks(queues: Iterable[str]) -> dict[str, Notice]:
    """Map queues to the open notice of their block, in one query; none without any queue."""
    names = set(queues)
    if not names:
        return {}
    notices = Notice.objects.filter(kind=NoticeKind.BLOCKED, closed_at__isnull=True)
    blocks: dict[str, Notice] = {}
    for notice in notices.order_by("opened_at"):
        # A partition's subject is "queue[0]", that of a strict outbound queue its name alone.
        name = notice.subject.partition("[")[0]
        if name in names:
            blocks.setdefault(name, notice)
    return blocks


def _close(notice: Notice) -> None:
    """An end whose beginning nobody heard of needs no mail either."""
    open_rows = Notice.objects.filter(pk=notice.pk, closed_at__isnull=True)
    if notice.told_at is None:
        open_rows.update(closed_at=database_now(), told_at=database_now())
    else:
        open_rows.update(closed_at=database_now(), told_at=None)


def _tell(notice: Notice) -> None:
    """Mail and one log line; a mail that cannot be sent is tried again at the next look."""
    with transaction.atomic():
        # The row lock makes one teller of two.
        mine = Notice.objects.select_for_update(skip_locked=True).filter(
            pk=notice.pk, told_at__isnull=True
        )
        current = mine.first()
        if current is None or not _mailed(current):
            return
        mine.update(told_at=database_now())
    is_over = current.closed_at is not None
    logger.log(
        logging.INFO if is_over else logging.WARNING,
        "notice over" if is_over else "notice",
        extra={"kind": current.kind, "subject": current.subject, "text": current.text},
    )


def _mailed(notice: Notice) -> bool:
    recipients = settings.SLUICE_NOTIFY_EMAILS
    if not recipients:
        return True
    lead = "Over: " if notice.closed_at is not None else ""
    subject = f"[{settings.SLUICE_DEPLOYMENT}] {lead}{notice.get_kind_display()}"
    end = f"\n\nOver since {notice.closed_at:%d %B %Y %H:%M} UTC." if notice.closed_at else ""
    body = f"{notice.subject}: {notice.text}\n\nSince {notice.opened_at:%d %B %Y %H:%M} UTC.{end}"
    try:
        send_mail(f"{subject}: {notice.subject}"[:200], body, None, recipients)
    except OSError as e:
        # smtplib's errors are OSErrors, too; tried again in five seconds.
        logger.warning("a notice could not be mailed", extra={"error": str(e)})
        return False
    return True
