"""What people decide about a notice: that they know of it, or that it may wait."""

from datetime import datetime
from typing import Final

from django.db import transaction

from crontasks.errors import NoticeOverError
from crontasks.models import Notice
from integration.actions import configuration
from integration.actions.configuration import Author
from integration.store.sessions import database_now

NOTE_LENGTH: Final = 500


def acknowledge(notice_id: int, author: Author) -> bool:
    """Note who knows of it; nobody is reminded any more. False if somebody did so before.

    Its end is told all the same. Raises NoticeOverError, Notice.DoesNotExist.
    """
    with transaction.atomic():
        notice = _open(notice_id)
        if notice.acknowledged_at is not None:
            return False
        Notice.objects.filter(pk=notice.pk).update(
            acknowledged_at=database_now(),
            acknowledged_by=author.actor[:150],
            note=author.reason.strip()[:NOTE_LENGTH],
            again_at=None,
        )
        configuration.record(notice, {"acknowledged": False}, {"acknowledged": True}, author)
    return True


def take_back(notice_id: int, author: Author) -> bool:
    """Nobody sees to it after all: reminders come again, the next one at once if any are due.

    False if nobody had acknowledged or snoozed it. Raises NoticeOverError, Notice.DoesNotExist.
    """
    with transaction.atomic():
        notice = _open(notice_id)
        if notice.acknowledged_at is None and notice.snoozed_until is None:
            return False
        again = None if notice.decided_at is None else database_now()
        Notice.objects.filter(pk=notice.pk).update(
            acknowledged_at=None, acknowledged_by="", note="", snoozed_until=None, again_at=again
        )
        was, is_now = _attention(notice), {"acknowledged": False, "snoozed_until": None}
        configuration.record(notice, was, is_now, author)
    return True


def snooze(notice_id: int, until: datetime, author: Author) -> None:
    """Tell nobody of it before then; if it lasts longer, people are told again at that time.

    Its end is told at once. Raises NoticeOverError, Notice.DoesNotExist.
    """
    with transaction.atomic():
        notice = _open(notice_id)
        again = until if notice.decided_at is not None else None
        Notice.objects.filter(pk=notice.pk).update(
            snoozed_until=until,
            acknowledged_at=None,
            acknowledged_by=author.actor[:150],
            note=author.reason.strip()[:NOTE_LENGTH],
            again_at=again,
        )
        is_now = {"acknowledged": False, "snoozed_until": until.isoformat()}
        configuration.record(notice, _attention(notice), is_now, author)


def _attention(notice: Notice) -> dict[str, object]:
    until = notice.snoozed_until
    return {
        "acknowledged": notice.acknowledged_at is not None,
        "snoozed_until": None if until is None else until.isoformat(),
    }


def _open(notice_id: int) -> Notice:
    """Lock it. Raises NoticeOverError, Notice.DoesNotExist."""
    rows = Notice.objects.select_for_update(of=("self",)).select_related("queue__system")
    notice = rows.get(pk=notice_id)
    if notice.closed_at is not None:
        raise NoticeOverError(title=str(notice.get_kind_display()), subject=notice.subject)
    return notice
