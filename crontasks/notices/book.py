"""The book of notices: each condition is told once when it begins and once when it is over."""

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import Q

from crontasks.models import Notice
from crontasks.models.notice import ABOUT_PROVIDERS
from crontasks.models.notice_kinds import TITLES, NoticeKind
from integration.clock import database_now

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is so right now: of which subject, and what to do about it."""

    kind: NoticeKind
    subject: str
    text: str


# A broker that restarts is nobody's mail: so long a provider has to be away before it is told.
PROVIDER_PATIENCE: Final = timedelta(seconds=30)


def settle(present: Iterable[Condition], kinds: Collection[NoticeKind]) -> None:
    """Open what is new, close what is over (of these `kinds` only), tell what was not told.

    What is known of providers is written by those who ask them (`keep`) and only told here.
    """
    keep(present, kinds, ~ABOUT_PROVIDERS)
    young = ABOUT_PROVIDERS & Q(
        closed_at__isnull=True, opened_at__gt=database_now() - PROVIDER_PATIENCE
    )
    untold = Notice.objects.filter(told_at__isnull=True, kind__in=list(kinds))
    for notice in untold.exclude(young):
        _tell(notice)


def keep(present: Iterable[Condition], kinds: Collection[NoticeKind], about: Q) -> None:
    """Open what is new and close what is over, of these `kinds` and subjects; tells nobody."""
    now = {(condition.kind, condition.subject): condition for condition in present}
    open_notices = Notice.objects.filter(about, closed_at__isnull=True, kind__in=list(kinds))
    known = {(NoticeKind(notice.kind), notice.subject): notice for notice in open_notices}
    for key, condition in now.items():
        if key not in known:
            _open(condition)
    for key, notice in known.items():
        if key not in now:
            _close(notice)
        elif notice.text != now[key].text:
            Notice.objects.filter(pk=notice.pk).update(text=now[key].text)


def _open(condition: Condition) -> None:
    # Two watches may look at the same time; the partial unique index lets one of them in.
    Notice.objects.bulk_create(
        [
            Notice(
                kind=condition.kind,
                subject=condition.subject,
                text=condition.text,
                opened_at=database_now(),
            )
        ],
        ignore_conflicts=True,
    )


def _close(notice: Notice) -> None:
    """An end that was never told as a beginning needs no mail either."""
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
    subject = f"[{settings.SLUICE_DEPLOYMENT}] {lead}{TITLES[NoticeKind(notice.kind)]}"
    end = f"\n\nOver since {notice.closed_at:%d %B %Y %H:%M} UTC." if notice.closed_at else ""
    body = f"{notice.subject}: {notice.text}\n\nSince {notice.opened_at:%d %B %Y %H:%M} UTC.{end}"
    try:
        send_mail(f"{subject}: {notice.subject}"[:200], body, None, recipients)
    except OSError as e:
        # smtplib's errors are OSErrors, too; told again in five seconds.
        logger.warning("a notice could not be mailed", extra={"error": str(e)})
        return False
    return True
