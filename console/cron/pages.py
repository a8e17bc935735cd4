"""Cron instances: when they run, how it went, running one now, letting one rest."""

from dataclasses import asdict
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.bulk.asking import schedule_note
from console.cron.forms import OneRunForm
from console.cron.rights import Judge
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import see, see_again, tell_problem
from console.layout.standby import from_standby
from console.setup.pages import author_of
from crontasks.definitions import registry
from crontasks.instances import actions, selectors
from crontasks.instances.selectors import STATES, InstanceDetail, InstanceFilter
from integration.errors import IntegrationError
from integration.selectors import changes

GONE = "There is no such instance; it may have been deleted."


@require_GET
@needs(Right.VIEW)
@from_standby
def cron_list(request: HttpRequest) -> HttpResponse:
    scope = scope_of(request.user)
    wanted = InstanceFilter(
        text=request.GET.get("q", "").replace("\0", "")[:100], state=request.GET.get("state", "")
    )
    page = selectors.instances(scope, wanted, request.GET.get("after", "").replace("\0", ""))
    context = {
        "instances": page.rows,
        "after": page.after,
        "wanted": wanted,
        "is_filtered": bool(wanted.text or wanted.state),
        "states": STATES,
        "is_limited": not scope.is_whole,
        "api_query": urlencode({name: text for name, text in asdict(wanted).items() if text}),
    }
    return render(request, "console/cron/list.html", context)


@require_GET
@needs(Right.VIEW)
def cron_instance(request: HttpRequest, instance_id: int) -> HttpResponse:
    return _show(request, known_instance(request, instance_id))


@require_GET
@needs(Right.VIEW)
def cron_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """One run: what it did, for how long, where, and what it said."""
    run = selectors.run(run_id, scope_of(request.user))
    if run is None:
        raise Http404("There is no such run. Each instance keeps only its latest runs.")
    return render(request, "console/cron/run.html", {"run": run, "instance": run.instance})


@needs(Right.VIEW, Right.OPERATE)
def run_now(request: HttpRequest, instance_id: int) -> HttpResponse:
    detail = known_instance(request, instance_id)
    if request.method != "POST":
        return see("cron-instance", instance_id)
    given = None
    if "with-parameters" in request.POST:
        # They decide what a run does: whoever may not store them may not run them once either.
        if not has(request.user, Right.CONFIGURE):
            raise PermissionDenied(Right.CONFIGURE.missing)
        form = _one_run_form(request, detail, request.POST)
        if not form.is_valid():
            return _show_one_run(request, detail, form, status=422)
        given = form.given()
    try:
        actions.run_now(instance_id, author_of(request), given=given)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show(request, detail, status=409)
    sentence = "A worker starts within seconds, and the run appears in the list"
    quiet = "; a consumer's run without work does not." if detail.row.is_consumer else "."
    messages.success(request, f"Requested. {sentence}{quiet}")
    return see_again(request, "cron-instance", instance_id)


@require_GET
@needs(Right.VIEW, Right.OPERATE, Right.CONFIGURE)
def one_run(request: HttpRequest, instance_id: int) -> HttpResponse:
    """The form of a run with other parameters."""
    detail = known_instance(request, instance_id)
    return _show_one_run(request, detail, _one_run_form(request, detail))


@needs(Right.VIEW, Right.OPERATE)
def pause(request: HttpRequest, instance_id: int) -> HttpResponse:
    detail = known_instance(request, instance_id)
    if request.method != "POST":
        return see("cron-instance", instance_id)
    author = author_of(request)
    if not author.reason:
        messages.warning(
            request, "Nothing was changed: enter a reason, for others who find it paused."
        )
        return _show(request, detail, status=422)
    if actions.switch(instance_id, author, active=False):
        messages.success(request, f"{detail.row.name} is paused. A run in progress finishes.")
    else:
        messages.info(request, f"{detail.row.name} was already paused.")
    return see_again(request, "cron-instance", instance_id)


@needs(Right.VIEW, Right.OPERATE)
def activate(request: HttpRequest, instance_id: int) -> HttpResponse:
    detail = known_instance(request, instance_id)
    if request.method != "POST":
        return see("cron-instance", instance_id)
    if actions.switch(instance_id, author_of(request), active=True):
        messages.success(request, f"{detail.row.name} is active again, starting now.")
    else:
        messages.info(request, f"{detail.row.name} was already active.")
    return see_again(request, "cron-instance", instance_id)


def known_instance(request: HttpRequest, instance_id: int) -> InstanceDetail:
    """The instance, if this person may know of it; else a 404."""
    detail = selectors.instance(instance_id, scope_of(request.user))
    if detail is None:
        raise Http404(GONE)
    return detail


def _show(request: HttpRequest, detail: InstanceDetail, *, status: int = 200) -> HttpResponse:
    page = selectors.runs(detail.row.id, request.GET.get("before", ""))
    context = {
        "detail": detail,
        "instance": detail.row,
        "page": page,
        "is_newest": "before" not in request.GET,
        "history": changes.history_of("croninstance", detail.row.id),
        "note": schedule_note(detail.instance.parameters),
    }
    return render(request, "console/cron/instance.html", context, status=status)


def _one_run_form(request: HttpRequest, detail: InstanceDetail, *given: QueryDict) -> OneRunForm:
    definition = registry.get(detail.row.task)
    if definition is None or detail.row.is_consumer:
        raise Http404("This cron task is not installed here, or has no parameters.")
    judge = Judge(request)
    return OneRunForm(*given, definition=definition, instance=detail.instance, judge=judge)


def _show_one_run(
    request: HttpRequest, detail: InstanceDetail, form: OneRunForm, *, status: int = 200
) -> HttpResponse:
    context = {"detail": detail, "instance": detail.row, "form": form}
    return render(request, "console/cron/one_run.html", context, status=status)
