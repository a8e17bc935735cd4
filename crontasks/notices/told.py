"""Who was told about a queue that stands still, and when."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from crontasks.models import Notice
from crontasks.models.notice_kinds import NoticeKind


@dataclass(frozen=True, slots=True)
class Told:
    """An open notice: since when it stands, and when it was sent; None = not yet."""

    opened_at: datetime
    told_at: datetime | None

    @property
    def recipients(self) -> tuple[str, ...]:
        """Who gets notices as the installation is set now; empty = only the log tells."""
        return tuple(settings.SLUICE_NOTIFY_EMAILS)


def told(queues: Iterable[str]) -> dict[str, Told]:
    """By queue the open notice of its block, in one query; none without any queue."""
    wanted = set(queues)
    if not wanted:
        return {}
    notices = Notice.objects.filter(kind=NoticeKind.BLOCKED, closed_at__isnull=True)
    found: dict[str, Told] = {}
    for subject, opened_at, told_at in notices.order_by("opened_at").values_list(
        "subject", "opened_at", "told_at"
    ):
        # A partition's subject is "queue[0]", that of a strict outbound queue its name alone.
        name = subject.partition("[")[0]
        if name in wanted:
            found.setdefault(name, Told(opened_at, told_at))
    return found
