"""The filters of the failures list as the operator API takes them, and places in lists."""

from django.http import QueryDict
from ninja import Schema
from pydantic import Field

from console.api.paging import no_place
from console.failures.filters import FailureFilterForm
from integration.selectors.failures.failures import Cursor
from integration.selectors.paging import PAGE_ROWS


class FailureFilters(Schema):
    """The filters of the console's list, as in the address there."""

    state: str | None = Field(
        None, description="A state; OPEN (default): all open ones; empty: all."
    )
    queue: str | None = None
    system: str | None = Field(None, description="External system; “-”: of none.")
    code: str | None = None
    interface: str | None = Field(None, description="Service.")
    since: str | None = Field(None, description="Failed since, as 2026-11-27T10:00 (UTC).")
    until: str | None = None
    message_id: str | None = None
    run: str | None = Field(None, description="Rejected by the bulk run of this id.")
    fingerprint: str | None = Field(None, description="Cause: its id.")
    origin_topic: str | None = None
    cause_class: str | None = None
    key: str | None = Field(None, description="Record key; needs the right view_payload.")
    text: str | None = Field(None, description="Text in payloads; needs the right view_payload.")


class FailurePlace(FailureFilters):
    """Filters, and the place in the list."""

    at: str | None = Field(None, description="`next` or `previous` of an earlier answer.")
    size: int = Field(PAGE_ROWS, ge=1, le=200)


def filter_form(query: QueryDict, *, may_see: bool) -> FailureFilterForm:
    """The console's own filter, every word of it understood. Raises BadFilterError."""
    form = FailureFilterForm(query, may_see_payload=may_see)
    form.refuse_misread()
    return form


def cursor_of(mark: str | None) -> Cursor | None:
    """The place in a list; none begins at its start. Raises BadInputError."""
    cursor = Cursor.read(mark) if mark else None
    if mark and cursor is None:
        raise no_place("at", "“next” or “previous”")
    return cursor
