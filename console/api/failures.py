"""Failures over HTTP: list, read, check, edit, and every decision about one."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from ninja import Query, Router

from console.api.errors import BadInputError, EditFaultsError
from console.api.failure_answers import (
    CauseGroup,
    CauseGroups,
    Checked,
    Decided,
    Edit,
    Edited,
    Failure,
    FailureLine,
    FailurePage,
    Payload,
    Release,
    Tried,
    Versioned,
)
from console.api.failure_filters import (
    FailureFilters,
    FailurePlace,
    cursor_of,
    filter_form,
)
from console.api.paging import filter_in
from console.api.routes import acting, operation, reading
from console.failures.checks import covered
from console.failures.filters import OPEN_ONES
from console.failures.pages import NARROWING
from console.failures.waits import now_of
from console.layout import trail
from console.layout.access import Right, has, scope_of
from console.layout.answers import actor_of
from integration.actions import check as checks
from integration.actions import dead_letters
from integration.actions import failures as actions
from integration.actions.errors import StateMismatchError
from integration.selectors.failures import failure as one
from integration.selectors.failures import failures, payload_search
from integration.selectors.failures.causes import By, causes
from integration.selectors.failures.edits import Editable, Part, editable, text_of
from integration.selectors.failures.failures import Cursor
from integration.selectors.failures.faults import faults_of

router: Final = Router(tags=["failures"])
ONE: Final = "/failures/{uuid:error_id}"
# How the audit names where a payload was seen.
BY_API: Final = "by the operator API"

ONLY_OPEN: Final = (
    "Groups are of open failures only, and narrowed by state, queue, system, interface, code, "
    "fingerprint and run."
)


@reading(router, "/failures", answer=FailurePage)
def list_failures(request: HttpRequest, place: Query[FailurePlace]) -> FailurePage:
    """The failures that a filter finds, newest first."""
    may_see, scope = has(request.user, Right.VIEW_PAYLOAD), scope_of(request.user)
    form = filter_form(filter_in(request.GET, "at", "size"), may_see=may_see)
    wanted = form.wanted()
    cursor = cursor_of(place.at)
    if wanted.text:
        found = payload_search.search(wanted, scope, cursor, place.size)
        return _page(found.rows, may_see=may_see, count=None, after=found.next_after)
    page = failures.page(wanted, scope, cursor, place.size)
    return _page(
        page.rows, may_see=may_see, count=page.shown_count, after=page.next_after, page=page
    )


@reading(router, "/failures/causes", answer=CauseGroups)
def group_failures(
    request: HttpRequest,
    filters: Query[FailureFilters],  # noqa: ARG001 - for the document; the form reads them
    by: By = By.CAUSE,
) -> CauseGroups:
    """Open failures by cause, or by queue, system, service or code."""
    query = filter_in(request.GET, "by")
    wanted = filter_form(query, may_see=False).wanted()
    if wanted.state not in OPEN_ONES or not NARROWING.issuperset(query):
        raise BadInputError(ONLY_OPEN)
    grouped = causes(wanted, scope_of(request.user), by=by)
    groups = [CauseGroup.model_validate(group, from_attributes=True) for group in grouped.groups]
    return CauseGroups(groups=groups, total=grouped.total, has_more=grouped.has_more)


@reading(router, ONE, answer=Failure)
def read_failure(request: HttpRequest, error_id: UUID) -> Failure:
    """One failure: what happened, what to do now, every try and every decision."""
    detail = known(request, error_id)
    return Failure.of(detail, now_of(detail))


@reading(router, f"{ONE}/payload", Right.VIEW_PAYLOAD, answer=Payload)
def read_payload(request: HttpRequest, error_id: UUID, part: Part | None = None) -> Payload:
    """What the next attempt reads: text, key and headers. That it was read is noted.

    Placeholders such as ⟦masked 1⟧ stand for what masking rules hide. In an edit, one that is left
    where it is stands for its true value.
    """
    message = _editable(request, error_id, part)
    trail.note_view(request, "messageerror", error_id, BY_API)
    return Payload.of(message, one.contents(message.error, message.cover))


@reading(router, f"{ONE}/record", Right.VIEW_PAYLOAD, answer=Any)
def read_record(request: HttpRequest, error_id: UUID) -> HttpResponse:
    """The bytes of the record, as they are; refused (MASKED) where any of them is masked."""
    content = one.current_record(error_id, scope_of(request.user))
    if content is None:
        raise Http404("There are no bytes of such a failure.")
    trail.note_download(request, "messageerror", error_id, f"{error_id}.bin")
    return HttpResponse(content, content_type="application/octet-stream")


@acting(
    router,
    "PUT",
    f"{ONE}/payload",
    *(Right.VIEW, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    answer=Edited,
)
def edit_failure(request: HttpRequest, error_id: UUID, edit: Edit) -> Edited:
    """Replace what the next attempt of a held message reads."""
    message = _editable(request, error_id, edit.part)
    if edit.text is None and edit.record is None:
        raise BadInputError("Neither “text” nor “record” says what the message shall be.")
    record = _asked(message, edit)
    if not edit.anyway:
        _refuse_faults(message, record)
    version = actions.edit(
        error_id,
        version=edit.version,
        actor=actor_of(request),
        payload=record,
        reason=edit.reason,
    )
    return Edited(id=error_id, version=version)


@operation(
    router,
    "POST",
    f"{ONE}/checks",
    *(Right.VIEW, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    answer=Checked,
)
def check_failure(request: HttpRequest, error_id: UUID, tried: Tried) -> Checked:
    """Run the handler on a held message and undo everything."""
    message = _editable(request, error_id, tried.part)
    record = message.tried(_asked(message, tried))
    return Checked.of(covered(checks.check(error_id, record), message.cover))


@acting(router, "POST", f"{ONE}/releases", Right.VIEW, Right.OPERATE, answer=Decided)
def release_failure(request: HttpRequest, error_id: UUID, asked: Release) -> Decided:
    """Give a held message back to the engine, with a fresh budget of retries."""
    verb = partial(actions.release, late=asked.late, apply_as_newest=asked.apply_as_newest)
    return _decided(request, error_id, verb, asked)


@acting(router, "POST", f"{ONE}/holds", Right.VIEW, Right.OPERATE, answer=Decided)
def hold_failure(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Stop the engine's retries of a message."""
    return _decided(request, error_id, actions.hold, asked)


@acting(router, "POST", f"{ONE}/deletions", Right.VIEW, Right.OPERATE, answer=Decided)
def delete_failure(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Decide that a message is not to be applied; needs a reason, and can be undone."""
    return _decided(request, error_id, actions.delete, asked)


@acting(router, "POST", f"{ONE}/restorations", Right.VIEW, Right.OPERATE, answer=Decided)
def restore_failure(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Bring a deleted message back on hold."""
    return _decided(request, error_id, actions.restore, asked)


@acting(router, "POST", f"{ONE}/parkings", Right.VIEW, Right.OPERATE, answer=Decided)
def park_failure(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Let a sequential queue go on past its held head; needs a reason."""
    return _decided(request, error_id, actions.park, asked)


@acting(router, "POST", f"{ONE}/arrivals", Right.VIEW, Right.OPERATE, answer=Decided)
def record_arrival(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Say that a held outbound message is on the other side; needs a reason."""
    return _decided(request, error_id, actions.arrived, asked)


@acting(router, "POST", f"{ONE}/returns", Right.VIEW, Right.OPERATE, answer=Decided)
def return_failure(request: HttpRequest, error_id: UUID, asked: Versioned) -> Decided:
    """Send a dead letter back to the topic it came from."""
    scope = scope_of(request.user)
    dead_letters.check(known(request, error_id).error, scope)
    return _decided(request, error_id, dead_letters.send_back, asked)


def known(request: HttpRequest, error_id: UUID) -> one.FailureDetail:
    """The failure, if this person may know of it. Raises Http404."""
    detail = one.detail(error_id, scope_of(request.user))
    if detail is None:
        raise Http404(one.UNKNOWN)
    return detail


def _decided(
    request: HttpRequest, error_id: UUID, verb: Callable[..., object], asked: Versioned
) -> Decided:
    """Carry a verb out. Doing the same again is no problem, as on the page."""
    known(request, error_id)
    already = False
    try:
        verb(error_id, version=asked.version, actor=actor_of(request), reason=asked.reason)
    except StateMismatchError as problem:
        if not problem.already_done:
            raise
        already = True
    row = known(request, error_id).error
    return Decided(id=error_id, version=row.version, state=row.state, already=already)


def _editable(request: HttpRequest, error_id: UUID, part: Part | None) -> Editable:
    message = editable(error_id, scope_of(request.user), part)
    if message is None:
        raise Http404(one.UNKNOWN)
    return message


def _asked(message: Editable, tried: Tried) -> bytes:
    """The record that is asked for. Raises BadInputError, MisfitTextError."""
    if tried.text is not None and tried.record is not None:
        raise BadInputError("Send “text” or “record”, not both.")
    if tried.record is not None:
        return message.replaced_by(tried.record)
    return message.record if tried.text is None else message.composed(tried.text)


def _refuse_faults(message: Editable, record: bytes) -> None:
    """Raises EditFaultsError for what the engine would object to."""
    mask = message.cover.mask
    shown = text_of(record, message.headers, message.part, message.reading, mask=mask)
    found = faults_of(
        record, message.headers, message.error.interface, text=shown, reading=message.reading
    )
    if found:
        raise EditFaultsError(
            [
                (f"line {one.line}" if one.line else "", message.cover.text(one.text))
                for one in found
            ]
        )


def _page(
    rows: tuple[Any, ...],
    *,
    may_see: bool,
    count: int | None,
    after: Cursor | None,
    page: Any = None,
) -> FailurePage:
    before = page.before if page is not None else None
    return FailurePage.model_construct(
        failures=[FailureLine.of(row, may_see=may_see) for row in rows],
        count=count,
        is_capped=page is not None and page.is_capped,
        next=str(after) if after else None,
        previous=str(before) if before else None,
    )
