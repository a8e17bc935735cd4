"""The audit over HTTP: every change and access, newest first."""

from datetime import datetime
from typing import Any, Final

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.paging import filter_in, in_range, no_place
from console.api.routes import reading
from console.changes.pages import ChangeFilterForm, place_in, sees_accesses
from console.layout.access import scope_of
from integration.selectors import changes
from integration.selectors.changes import Change

router: Final = Router(tags=["audit"])
GONE: Final = "There is no such change."


class ChangeFilters(Schema):
    """The filters of the console's list, as in the address there, and the place in it."""

    action: str | None = None
    kind: str | None = None
    actor: str | None = None
    name: str | None = Field(None, description="Part of the name.")
    since: str | None = Field(None, description="As 2026-11-27T10:00 (UTC).")
    until: str | None = None
    at: str | None = Field(None, description="`next` of an earlier answer.")


class ChangeLine(Schema):
    """Who did what when, to what, and why; before and after only of what changed."""

    id: int
    at: datetime
    actor: str
    action: str
    kind: str
    subject: str
    name: str
    system: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str
    is_access: bool

    @classmethod
    def of(cls, change: Change) -> "ChangeLine":
        row = change.row
        own = {name: getattr(row, name) for name in cls.model_fields if name != "system"}
        return cls(**own, system=row.system.name if row.system else None)


class ChangePage(Schema):
    """A page, the newest first; `next` is a value for `at`."""

    changes: list[ChangeLine]
    next: str | None


@reading(router, "/changes", answer=ChangePage)
def list_changes(request: HttpRequest, filters: Query[ChangeFilters]) -> ChangePage:
    """Every change of the configuration; accesses for who manages people in the console."""
    scope = scope_of(request.user)
    query = filter_in(request.GET, "at")
    form = ChangeFilterForm(query, scope, accesses=sees_accesses(request))
    form.refuse_misread()
    place = place_in(filters.at or "")
    if filters.at and place is None:
        raise no_place("at")
    page = changes.page(form.wanted(), scope, place)
    older = f"{page.older[0].isoformat()}~{page.older[1]}" if page.older else None
    return ChangePage(changes=[ChangeLine.of(one) for one in page.changes], next=older)


@reading(router, "/changes/{int:number}", answer=ChangeLine)
def read_change(request: HttpRequest, number: int) -> ChangeLine:
    """One change."""
    scope, accesses = scope_of(request.user), sees_accesses(request)
    known = changes.change(in_range(number, GONE), scope, accesses=accesses)
    if known is None:
        raise Http404(GONE)
    return ChangeLine.of(known)
