"""Notices over HTTP: what is wrong now, and who sees to it."""

from datetime import datetime, timedelta
from typing import Final

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from console.api.errors import BadInputError
from console.api.paging import in_range
from console.api.routes import Decision, acting, reading
from console.layout.access import Right, scope_of
from console.layout.answers import actor_of
from console.notices.forms import LONGEST_SECONDS
from console.notices.pages import GONE
from crontasks.models.notice import NoticeKind
from crontasks.notices import actions, selectors
from crontasks.notices.selectors import NoticeRow
from integration.actions.configuration import Author

router: Final = Router(tags=["notices"])
ONE: Final = "/notices/{int:notice_id}"


class NoticeLine(Schema):
    """One notice. `told` heard of it; `waiting` are those to whom it is still to be sent.

    `given_up` are those who did not take it for a day.
    """

    id: int
    kind: str
    title: str
    subject: str
    queue: str
    text: str
    is_urgent: bool
    opened_at: datetime
    closed_at: datetime | None
    told: list[str]
    waiting: list[str]
    given_up: list[str]
    problem: str
    acknowledged_at: datetime | None
    acknowledged_by: str
    note: str
    snoozed_until: datetime | None

    @classmethod
    def of(cls, row: NoticeRow) -> "NoticeLine":
        shown = ("title", "queue", "is_urgent", "problem")
        stored = set(cls.model_fields) - {*shown, "told", "waiting", "given_up"}
        return cls(
            **{name: getattr(row, name) for name in shown},
            **{name: getattr(row.notice, name) for name in stored},
            told=list(row.told),
            waiting=list(row.waiting),
            given_up=list(row.given_up),
        )


class NoticePage(Schema):
    """Open notices, urgent ones first; `more` are not shown. `over`: the newest that are over."""

    open: list[NoticeLine]
    more: int
    over: list[NoticeLine]


class Snooze(Decision):
    """For how long nobody is told."""

    seconds: int = Field(ge=60, le=LONGEST_SECONDS)


@reading(router, "/notices", answer=NoticePage)
def list_notices(request: HttpRequest, kind: str = "") -> NoticePage:
    """What is wrong now, of one kind or all: 100 at most, and 50 that are over."""
    if kind and kind not in NoticeKind.values:
        raise BadInputError(f"There is no such kind; there are: {', '.join(NoticeKind.values)}.")
    page = selectors.page(scope_of(request.user), kind)
    return NoticePage(
        open=[NoticeLine.of(row) for row in page.open],
        more=page.more,
        over=[NoticeLine.of(row) for row in page.over],
    )


@reading(router, ONE, answer=NoticeLine)
def read_notice(request: HttpRequest, notice_id: int) -> NoticeLine:
    """One notice."""
    return NoticeLine.of(_known(request, notice_id))


@acting(router, "POST", f"{ONE}/acknowledgements", Right.VIEW, Right.OPERATE, answer=NoticeLine)
def acknowledge_notice(request: HttpRequest, notice_id: int, why: Decision) -> NoticeLine:
    """Say that you see to it: nobody is reminded any more. Its end is told."""
    actions.acknowledge(_known(request, notice_id).id, _author(request, why))
    return NoticeLine.of(_known(request, notice_id))


@acting(router, "POST", f"{ONE}/snoozes", Right.VIEW, Right.OPERATE, answer=NoticeLine)
def snooze_notice(request: HttpRequest, notice_id: int, asked: Snooze) -> NoticeLine:
    """Have nobody told for so long; if it lasts, people are told again then."""
    until = timezone.now() + timedelta(seconds=asked.seconds)
    actions.snooze(_known(request, notice_id).id, until, _author(request, asked))
    return NoticeLine.of(_known(request, notice_id))


@acting(router, "POST", f"{ONE}/withdrawals", Right.VIEW, Right.OPERATE, answer=NoticeLine)
def withdraw_notice(request: HttpRequest, notice_id: int, why: Decision) -> NoticeLine:
    """Take back an acknowledgement or a snooze: people are told again."""
    actions.take_back(_known(request, notice_id).id, _author(request, why))
    return NoticeLine.of(_known(request, notice_id))


def _author(request: HttpRequest, why: Decision) -> Author:
    return Author(actor_of(request), why.reason)


def _known(request: HttpRequest, notice_id: int) -> NoticeRow:
    """Raises Http404."""
    row = selectors.one(in_range(notice_id, GONE), scope_of(request.user))
    if row is None:
        raise Http404(GONE)
    return row
