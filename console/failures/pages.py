"""Failures by cause, the list of them, and the page of one."""

from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.failures.filters import OPEN_ONES, FailureFilterForm
from console.failures.mends import mend_of
from console.failures.replays import replay_around
from console.failures.support import support_text
from console.failures.trends import trend_of
from console.failures.waits import now_of
from console.layout import reveals, trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import parse_id, see_list
from console.layout.standby import from_standby
from integration.selectors import traces
from integration.selectors.bulk import runs
from integration.selectors.failures import failure as one
from integration.selectors.failures import failures, lateness, payload_search
from integration.selectors.failures.causes import GROUPS_SHOWN, By, causes
from integration.selectors.failures.payloads import row_of, text_of_row
from integration.selectors.failures.timeline import timeline
from integration.selectors.masking.errors import MaskedError

# The audit's name of a failure.
KIND: Final = "messageerror"
BY_WORDS: Final = {
    By.CAUSE: "Cause",
    By.QUEUE: "Queue",
    By.SYSTEM: "System",
    By.SERVICE: "Service",
    By.CODE: "Code",
}
# What groups can be narrowed by: the columns of their index.
NARROWING: Final = frozenset(
    {"by", "state", "queue", "system", "interface", "code", "fingerprint", "run"}
)


@require_GET
@needs(Right.VIEW)
@from_standby
def failure_groups(request: HttpRequest) -> HttpResponse:
    """By cause, or regrouped. A filter alone asks for the list, as it did before groups were."""
    asked = request.GET
    if set(asked) - {"by"} and ("by" not in asked or not NARROWING.issuperset(asked)):
        return see_list("failure-list", _without(asked, "by").urlencode())
    by = By(asked["by"]) if asked.get("by") in set(By) else By.CAUSE
    form = FailureFilterForm(_without(asked, "by"), failures.choices(scope_of(request.user)))
    wanted = form.wanted()
    # Where it cannot be read, the list says so at the field.
    if form.errors or wanted.state not in OPEN_ONES:
        return see_list("failure-list", form.query())
    grouped = causes(wanted, scope_of(request.user), by=by)
    narrows = {name: value for name, value in form.words().items() if name != "state"}
    state = {"state": wanted.state} if wanted.state != "OPEN" else {}
    asked_for = {**state, **narrows}
    ways = [(way, said, urlencode({"by": way, **asked_for})) for way, said in BY_WORDS.items()]
    context = {
        "grouped": grouped,
        "lines": [
            (group, trend_of(group.trend), urlencode({**asked_for, **group.narrows}))
            for group in grouped.groups
        ],
        "by": by,
        "ways": ways,
        "form": form,
        "narrows": narrows,
        "run": wanted.run,
        "query": form.query(),
        "api_query": urlencode({"by": by, **asked_for}),
        "most": GROUPS_SHOWN,
    }
    return render(request, "console/failures/groups.html", context)


@require_GET
@needs(Right.VIEW)
@from_standby
def failure_list(request: HttpRequest) -> HttpResponse:
    scope, may_see = scope_of(request.user), has(request.user, Right.VIEW_PAYLOAD)
    form = FailureFilterForm(request.GET, failures.choices(scope), may_see_payload=may_see)
    wanted = form.wanted()
    cursor = failures.Cursor.read(request.GET.get("at", ""))
    is_search = bool(wanted.text)
    context: dict[str, Any] = {
        "form": form,
        "query": form.query(),
        "is_default": wanted.is_default,
        "is_search": is_search,
        "page": payload_search.search(wanted, scope, cursor)
        if is_search
        else failures.page(wanted, scope, cursor),
    }
    rows, asked = context["page"].rows, wanted.origin_topic or wanted.cause_class
    context["has_letters"] = bool(asked) or any(row.origin_topic for row in rows)
    return render(request, "console/failures/list.html", context)


@require_GET
@needs(Right.VIEW)
def failure_page(request: HttpRequest, error_id: UUID) -> HttpResponse:
    return show_failure(request, error_id)


def show_failure(
    request: HttpRequest, error_id: UUID, *, status: int = 200, late_asked: bool = False
) -> HttpResponse:
    """The page of a failure, also as the answer to a verb that was not carried out."""
    scope = scope_of(request.user)
    until = reveals.revealed_until(request, KIND, error_id)
    detail = one.detail(error_id, scope, is_revealed=until is not None)
    if detail is None:
        raise Http404(one.UNKNOWN)
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    cover = detail.cover
    if may_see:
        trail.note_view(request, KIND, error_id, detail.error.message_id)
    changes = None
    if may_see and detail.is_edited:
        changes = one.edited_difference(detail.error, cover.mask)
    context = {
        "detail": detail,
        "error": detail.error,
        "now": now_of(detail),
        "contents": one.contents(detail.error, cover) if may_see else None,
        "changes": changes,
        "revealed_until": until,
        "is_raw": request.GET.get("view") == "raw",
        "newer": lateness.newer_data(detail.error) if detail.is_open else None,
        "events": timeline(detail.error, detail.tries, detail.changes, cover, scope),
        "late_asked": late_asked,
        "trace": traces.shown(traces.trace_of(detail.error)),
        "mend": mend_of(detail.error, request.user),
        "support": support_text(detail),
        "bulk_run": _bulk_run(request, detail),
        "row": row_of(detail.error),
        "row_text": text_of_row(detail.error, cover) if may_see else "",
        "replay": replay_around(detail.error),
        **_places(request, detail),
    }
    return render(request, "console/failures/failure.html", context, status=status)


@require_GET
@needs(Right.VIEW, Right.VIEW_PAYLOAD)
def record(request: HttpRequest, error_id: UUID) -> HttpResponse:
    """The bytes themselves, as a file: never rendered by the browser."""
    is_revealed = reveals.is_revealed(request, KIND, error_id)
    try:
        content = one.current_record(error_id, scope_of(request.user), is_revealed=is_revealed)
    except MaskedError as problem:
        raise PermissionDenied(str(problem)) from problem
    if content is None:
        raise Http404("There are no bytes to download.")
    trail.note_download(request, KIND, error_id, f"{error_id}.bin")
    headers = {"Content-Disposition": f'attachment; filename="{error_id}.bin"'}
    return HttpResponse(content, content_type="application/octet-stream", headers=headers)


def _places(request: HttpRequest, detail: one.FailureDetail) -> dict[str, object]:
    """The list that the person came from: its filter, and what stands before and after."""
    asked = _without(request.GET, "view", "from")
    form = FailureFilterForm(asked, may_see_payload=has(request.user, Right.VIEW_PAYLOAD))
    wanted = form.wanted()
    newer = older = None
    is_list = "from" in request.GET and form.is_valid() and not wanted.text
    if is_list:
        newer, older = failures.neighbours(wanted, scope_of(request.user), detail.error)
    query = form.query()
    back = f"from=list&{query}" if query else "from=list"
    return {"is_list": is_list, "newer_id": newer, "older_id": older, "query": query, "back": back}


def _bulk_run(request: HttpRequest, detail: one.FailureDetail) -> UUID | None:
    """The bulk run that rejected it, if one did: it stands in its place of a topic."""
    number = parse_id(detail.error.topic_uuid)
    shown = None if number is None else runs.one(number, scope_of(request.user))
    return None if shown is None else shown.run.pk


def _without(asked: QueryDict, *names: str) -> QueryDict:
    rest = asked.copy()
    for name in names:
        rest.pop(name, None)
    return rest
