"""Operations over many failures: the list, the page of one, and its report."""

import csv
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout import trail
from console.layout.access import Right, has, needs, scope_of
from console.layout.context import live_seconds_of, refresh_of
from console.layout.standby import from_standby
from console.operations.forms import PartForm, RateForm, RecipeForm, StartForm
from console.operations.words import OUTCOMES, STATES, WORDS
from crontasks.health.released import waits_of
from integration.actions.operation_trials import trial_of
from integration.models import Operation
from integration.policy.moves import EDIT, SEND_BACK
from integration.policy.states import OperationState
from integration.selectors.failures import returns
from integration.selectors.failures.failures import Cursor
from integration.selectors.operations import operations as selector
from integration.selectors.operations import plans
from integration.selectors.operations.operations import Show

# Where each look would go through more messages than this, it is no more often than on other pages.
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
@from_standby
def operation_list(request: HttpRequest) -> HttpResponse:
    state = request.GET.get("state", "")
    state = state if state in set(OperationState) else ""
    cursor = Cursor.read(request.GET.get("at", ""))
    context = {
        "page": selector.page(scope_of(request.user), cursor, state=state),
        "state": state,
        "states": [(one.value, STATES[one][2]) for one in OperationState],
        "is_continued": cursor is not None,
        "api_query": urlencode({"state": state} if state else {}),
    }
    return render(request, "console/operations/list.html", context)


@require_GET
@needs(Right.VIEW)
def operation_page(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    return show(request, wanted(request, operation_id))


def wanted(request: HttpRequest, operation_id: UUID) -> Operation:
    """The operation, if this person may know of all its messages. Raises Http404."""
    operation = selector.one(operation_id, scope_of(request.user))
    if operation is None:
        raise Http404("There is no such operation (any more); planned ones are kept for a day.")
    return operation


def show(
    request: HttpRequest,
    operation: Operation,
    *,
    status: int = 200,
    form: RateForm | RecipeForm | None = None,
) -> HttpResponse:
    """The page of an operation; `form` is one that was filled in and not carried out."""
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    # What is written into payloads is for those alone who may see or write them.
    sees_recipe = may_see or has(request.user, Right.EDIT_PAYLOAD)
    context: dict[str, Any] = {
        "operation": operation,
        "words": WORDS[operation.verb],
        "is_edit": operation.verb == EDIT.action,
        "sees_recipe": sees_recipe,
    }
    if operation.state != OperationState.PLANNED:
        context |= _under_way(request, operation)
        if isinstance(form, RateForm) and not isinstance(form, StartForm):
            context["rate_form"] = form
        return render(request, "console/operations/operation.html", context, status=status)
    context |= _plan(operation, may_see=may_see)
    if operation.verb == SEND_BACK.action:
        ways = returns.ways_of(operation, scope_of(request.user))
        refused = sum(way.messages for way in ways if way.refusal)
        context |= {"ways": ways, "refused": refused}
        context["fit"] -= refused
    has_late = bool(context["blast"].late)
    recipe = operation.recipe if sees_recipe else ""
    is_start, is_recipe = isinstance(form, StartForm), isinstance(form, RecipeForm)
    context["start_form"] = form if is_start else StartForm(operation, has_late=has_late)
    context["recipe_form"] = form if is_recipe else RecipeForm.showing(recipe)
    if context["first"] or context["diffs"]:
        trail.note_view(request, "operation", operation.pk, operation.title)
    return render(request, "console/operations/plan.html", context, status=status)


def _plan(operation: Operation, *, may_see: bool) -> dict[str, Any]:
    blast = plans.blast(operation)
    trial = trial_of(operation) if operation.recipe and operation.trial else None
    return {
        "is_tried": operation.is_tried,
        "blast": blast,
        "fit": blast.fit if trial is None else trial.fits + trial.same,
        "first": plans.first_payload(blast.samples) if may_see else None,
        "trial": trial,
        "diffs": plans.diffs(operation, trial.samples) if trial and may_see else (),
    }


def _under_way(request: HttpRequest, operation: Operation) -> dict[str, Any]:
    part = PartForm(request.GET)
    part.full_clean()
    shown, after = part.cleaned_data.get("show", Show.ALL), part.cleaned_data.get("after")
    progress = selector.progress(operation)
    is_open = operation.state in {OperationState.RUNNING, OperationState.PAUSED}
    seconds = (refresh_of if operation.total > LIVE_ITEMS else live_seconds_of)(request)
    return {
        "progress": progress,
        "seconds_left": progress.seconds_left(operation.rate),
        "skips": selector.skips(operation) if progress.skipped else (),
        "causes": selector.failed_causes(operation) if progress.failed else (),
        "waits": waits_of(selector.released(operation)) if progress.waiting else (),
        "first": selector.last_done(operation) if operation.why_paused == "first" else None,
        "page": selector.items(operation.pk, shown, -1 if after is None else after),
        "show": shown,
        "tabs": TABS,
        "is_continued": after is not None,
        "is_open": is_open,
        "rate_form": RateForm(initial={"rate": operation.rate}),
        "live_seconds": seconds if is_open or progress.waiting else 0,
    }


@require_GET
@needs(Right.VIEW)
def report(request: HttpRequest, operation_id: UUID) -> StreamingHttpResponse:
    """Every message and what became of it, as a file; no payload, no key."""
    operation = wanted(request, operation_id)
    trail.note_download(request, "operation", operation.pk, f"operation-{operation.pk}.csv")
    answer = StreamingHttpResponse(_lines(operation), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="operation-{operation.pk}.csv"'
    return answer


class _Line:
    """A file for the csv module that keeps nothing: it hands each line back."""

    def write(self, line: str) -> str:
        return line


def _lines(operation: Operation) -> Iterator[str]:
    writer = csv.writer(_Line())
    yield writer.writerow((*REPORT, *REPORT_MORE))
    for item in selector.every_item(operation.pk):
        at = item.at.isoformat(timespec="seconds") if item.at else ""
        message = (item.queue, item.message_id, item.interface, OUTCOMES[item.outcome])
        ending = (item.text, item.state, item.became, item.ended, item.code, at)
        yield writer.writerow((item.number, item.error, *map(_safe, (*message, *ending))))


def _safe(value: str | None) -> str:
    """A text that no spreadsheet takes for a formula: senders choose ids."""
    text = value or ""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text
