"""Bulk operations: the list, the page of one, and what people decide about it."""

import csv
from collections.abc import Callable, Iterator
from typing import Final, cast
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout import trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem, version_of
from console.layout.asked import number_of
from console.layout.context import refresh_of
from console.operations.forms import RateForm, RecipeForm, StartForm
from console.operations.words import STATES, WORDS, outcome_words
from crontasks.health.released import waits_of
from integration.actions import operations
from integration.actions.operation_trial import Trial
from integration.actions.operations import OperationRequest
from integration.errors import IntegrationError
from integration.models import Operation
from integration.policy.moves import EDIT
from integration.policy.states import OperationState
from integration.selectors.failures.failures import Cursor
from integration.selectors.operations import operations as found
from integration.selectors.operations.blast import blast
from integration.selectors.operations.diffs import diffs
from integration.selectors.operations.first_payload import first_payload
from integration.selectors.operations.operations import Show

Act = Callable[[HttpRequest, Operation], None]
# What is under way is looked at more often than other pages, unless the person wants no refresh
# or each look would go through many messages.
LIVE_SECONDS: Final = 2
LIVE_ITEMS: Final = 10_000
TABS: Final = (
    (Show.LEFT, "To go"),
    (Show.RESOLVED, "Resolved"),
    (Show.FAILED, "Failed again"),
    (Show.WAITING, "Not tried yet"),
    (Show.SKIPPED, "Left alone"),
)
REPORT: Final = ("number", "failure", "queue", "message_id", "service", "outcome", "why", "state")
REPORT_MORE: Final = ("became", "ended", "code", "at")


@require_GET
@needs(Right.VIEW)
def operation_list(request: HttpRequest) -> HttpResponse:
    state = request.GET.get("state", "")
    state = state if state in set(OperationState) else ""
    cursor = Cursor.read(request.GET.get("at", ""))
    context = {
        "page": found.page(scope_of(request.user), cursor, state=state),
        "state": state,
        "states": [(one.value, STATES[one][2]) for one in OperationState],
        "is_continued": cursor is not None,
    }
    return render(request, "console/operations/list.html", context)


@require_GET
@needs(Right.VIEW)
def operation_page(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    return show(request, wanted(request, operation_id))


def need_right_of(request: HttpRequest, verb: str) -> None:
    """Raises PermissionDenied where this person may not carry out what they plan."""
    if verb == EDIT.action and not has(request.user, Right.EDIT_PAYLOAD):
        raise PermissionDenied(Right.EDIT_PAYLOAD.missing)


def wanted(request: HttpRequest, operation_id: UUID) -> Operation:
    """The operation, if this person may know of all its messages. Raises Http404."""
    operation = found.one(operation_id, scope_of(request.user))
    if operation is None:
        raise Http404("There is no such operation (any more); planned ones are kept for a day.")
    return operation


def show(
    request: HttpRequest,
    operation: Operation,
    *,
    status: int = 200,
    start_form: StartForm | None = None,
    recipe_form: RecipeForm | None = None,
) -> HttpResponse:
    """The page of an operation, also as the answer to an act that was not carried out."""
    context: dict[str, object] = {"operation": operation, "words": WORDS[operation.verb]}
    context |= {"is_edit": operation.verb == "edit", "is_tried": operations.is_tried(operation)}
    # What is written into payloads is for those alone who may see or write them.
    sees_recipe = has(request.user, Right.VIEW_PAYLOAD) or has(request.user, Right.EDIT_PAYLOAD)
    context["sees_recipe"] = sees_recipe
    if operation.state == OperationState.PLANNED:
        may_see = has(request.user, Right.VIEW_PAYLOAD)
        trial = Trial.of(operation) if operation.recipe and operation.trial else None
        reach = blast(operation)
        fit = reach.fit if trial is None else trial.fits + trial.same
        context |= {
            "blast": reach,
            "first": first_payload(reach.samples) if may_see else None,
            "fit": fit,
            "start_form": start_form or StartForm(operation, has_late=bool(reach.late)),
            "recipe_form": recipe_form
            or RecipeForm.showing(operation.recipe if sees_recipe else ""),
            "trial": trial,
            "diffs": diffs(operation, trial.samples) if trial and may_see else (),
        }
        if context["first"] or context["diffs"]:
            trail.note_view(request, "operation", operation.pk, operation.title)
        return render(request, "console/operations/plan.html", context, status=status)
    context |= _under_way(request, operation)
    return render(request, "console/operations/operation.html", context, status=status)


def _under_way(request: HttpRequest, operation: Operation) -> dict[str, object]:
    shown = request.GET.get("show", "")
    show_ = Show(shown) if shown in set(Show) else Show.ALL
    after = number_of(request.GET.get("after", ""))
    progress = found.progress(operation)
    is_open = operation.state in {OperationState.RUNNING, OperationState.PAUSED}
    refresh = refresh_of(request)
    seconds = refresh if operation.total > LIVE_ITEMS else min(refresh, LIVE_SECONDS)
    return {
        "progress": progress,
        "seconds_left": progress.seconds_left(operation.rate),
        "skips": found.skips(operation) if progress.skipped else (),
        "causes": found.failed_causes(operation) if progress.failed else (),
        "waits": waits_of(found.released(operation)) if progress.waiting else (),
        "first": found.first_done(operation) if operation.why_paused == "first" else None,
        "page": found.items(operation.pk, show_, -1 if after is None else after),
        "show": show_,
        "tabs": TABS,
        "is_continued": after is not None,
        "is_open": is_open,
        "rate_form": RateForm(initial={"rate": operation.rate}),
        "live_seconds": seconds if is_open or progress.waiting else 0,
    }


@require_GET
@needs(Right.VIEW)
def report(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Every message and what became of it, as a file; no payload, no key."""
    operation = wanted(request, operation_id)
    trail.note_download(request, "operation", operation.pk, f"operation-{operation.pk}.csv")
    answer = StreamingHttpResponse(_lines(operation), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="operation-{operation.pk}.csv"'
    # Django's two kinds of answer have no common name that the guard of rights knows.
    return cast("HttpResponse", answer)


class _Line:
    """A file for the csv module that keeps nothing: it hands each line back."""

    def write(self, line: str) -> str:
        return line


def _lines(operation: Operation) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow((*REPORT, *REPORT_MORE))
    for item in found.every_item(operation.pk):
        at = item.at.isoformat(timespec="seconds") if item.at else ""
        known = (item.queue, item.message_id, item.interface, outcome_words(item.outcome))
        rest = (item.text, item.state, item.became, item.ended, item.code, at)
        yield writer.writerow((item.number, item.error, *map(_safe, (*known, *rest))))


def _safe(value: str | None) -> str:
    """A text that no spreadsheet takes for a formula: senders choose ids."""
    text = value or ""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


def _act(act: Act, done: str) -> Callable[[HttpRequest, UUID], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, operation_id: UUID) -> HttpResponse:
        operation = wanted(request, operation_id)
        if request.method != "POST":
            return see("operation", operation_id)
        try:
            act(request, operation)
        except IntegrationError as problem:
            tell_problem(request, problem)
            return show(request, wanted(request, operation_id), status=409)
        messages.success(request, done)
        return see("operation", operation_id)

    return view


@needs(Right.VIEW, Right.OPERATE)
def start(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Begin, with the first message alone or with all."""
    operation = wanted(request, operation_id)
    if request.method != "POST":
        return see("operation", operation_id)
    require_edit(request, operation)
    form = StartForm(operation, request.POST)
    if not form.is_valid():
        return show(request, operation, status=422, start_form=form)
    options = form.options(first_only=request.POST.get("first") == "1")
    try:
        operations.start(
            operation_id, options, version=version_of(request), actor=actor_of(request)
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        return show(request, wanted(request, operation_id), status=409, start_form=form)
    return see("operation", operation_id)


def require_edit(request: HttpRequest, operation: Operation) -> None:
    """An edit needs the right to change payloads too. Raises PermissionDenied."""
    if operation.verb == "edit" and not has(request.user, Right.EDIT_PAYLOAD):
        raise PermissionDenied(Right.EDIT_PAYLOAD.missing)


def _pause(request: HttpRequest, operation: Operation) -> None:
    reason = request.POST.get("reason", "")
    operations.pause(operation.pk, actor=actor_of(request), reason=reason)


def _resume(request: HttpRequest, operation: Operation) -> None:
    require_edit(request, operation)
    operations.resume(
        operation.pk,
        version=version_of(request),
        actor=actor_of(request),
        one_first=request.POST.get("first") == "1",
    )


def _cancel(request: HttpRequest, operation: Operation) -> None:
    reason = request.POST.get("reason", "")
    operations.cancel(operation.pk, actor=actor_of(request), reason=reason)


def _rate(request: HttpRequest, operation: Operation) -> None:
    form = RateForm(request.POST)
    rate = form.cleaned_data["rate"] if form.is_valid() else operation.rate
    operations.change_rate(operation.pk, rate, version=version_of(request), actor=actor_of(request))


pause = _act(_pause, "Paused. What is done stays done; the rest waits.")
resume = _act(_resume, "Resumed.")
cancel = _act(_cancel, "Cancelled. What is done stays done; the rest was left as it is.")
change_rate = _act(_rate, "The rate is changed; the runner keeps to it within a second.")


@needs(Right.VIEW, Right.OPERATE)
def again(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Plan a new operation over the part that failed again, or that was left alone."""
    operation = wanted(request, operation_id)
    part, verb = request.POST.get("part", ""), request.POST.get("verb", "")
    if request.method != "POST" or verb not in WORDS or part not in {"failed", "skipped"}:
        return see("operation", operation_id)
    need_right_of(request, verb)
    asked = OperationRequest(
        verb=verb, actor=actor_of(request), query=operation.query, retry_of=operation.pk
    )
    chosen = found.again(operation, Show(part))
    try:
        return see("operation", operations.plan_chosen(chosen, asked, scope_of(request.user)))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return see("operation", operation_id)
