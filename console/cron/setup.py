"""Setting up cron instances: choose a task, fill its form, change, clone, delete."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.bulk.rights import requested
from console.cron.forms import MOMENTS, CronForm
from console.cron.pages import known_instance
from console.cron.rights import Judge, asks_for_bulk_jobs
from console.forms.setup_form import free_name
from console.layout.access import Right, needs, scope_of
from console.layout.answers import parse_id, reason_of, see
from console.layout.asked import number_of
from console.layout.reveals import may_reveal
from console.setup.pages import TRIALS, UNEXPLAINED, author_of, seen_in, shown_again
from crontasks.definitions import Definition, registry
from crontasks.instances import actions, selectors
from crontasks.instances.effects import Effect, effect
from crontasks.instances.selectors import InstanceDetail
from crontasks.models import CronInstance
from integration import durations
from integration.actions import configuration
from integration.errors import IntegrationError
from integration.selectors.bulk import runs

COPIED: Final = (
    "name",
    *MOMENTS,
    *("overlap", "misfire", "timeout_seconds", "keep_runs", "run_as", "with_rights"),
)
LIMITED = (
    "Your account is limited to some external systems, and such a cron task affects all of them. "
    "Ask an administrator without that limit."
)


@needs(Right.VIEW, Right.CONFIGURE)
def create(request: HttpRequest) -> HttpResponse:
    """First the task is chosen, then its form is filled; `?like=NUMBER` begins with a copy."""
    offered = selectors.tasks(scope_of(request.user))
    if not offered:
        raise PermissionDenied(LIMITED)
    source = _source(request)
    wanted = source.row.task if source is not None else request.GET.get("task", "")
    definition = next((one for one in offered if one.name == wanted), None)
    if definition is None:
        return render(request, "console/cron/tasks.html", {"tasks": offered})
    show = partial(_show_form, request, definition=definition)
    if request.method != "POST":
        return show(_blank(request, definition, source))
    form = _form(request, definition, _copied(source))
    if again := shown_again(request, form, show):
        return again
    messages.success(request, f"{form.instance} was added.")
    return see("cron-instance", form.instance.pk)


@needs(Right.VIEW, Right.CONFIGURE)
def change(request: HttpRequest, instance_id: int) -> HttpResponse:
    """Its form; nothing is written when somebody else was faster."""
    detail = known_instance(request, instance_id)
    definition = registry.get(detail.row.task)
    if definition is None:
        raise Http404("The app that registers this cron task is not installed here.")
    form = _form(request, definition, detail.instance)
    show = partial(_show_form, request, definition=definition, detail=detail)
    if request.method != "POST":
        return show(form, seen=configuration.stamp(detail.instance))
    if again := shown_again(request, form, show, seen_in(request)):
        return again
    is_changed = form.is_changed
    messages.success(
        request, "Saved." if is_changed else "Nothing was different, so nothing was changed."
    )
    return see("cron-instance", instance_id)


@needs(Right.VIEW, Right.CONFIGURE)
def delete(request: HttpRequest, instance_id: int) -> HttpResponse:
    """Asked first, with what goes along; then gone, with a reason kept."""
    detail = known_instance(request, instance_id)
    if request.method != "POST":
        return _show_deletion(request, detail)
    author = author_of(request)
    if not author.reason:
        return _show_deletion(request, detail, mistake=UNEXPLAINED, status=422)
    try:
        actions.remove(instance_id, author)
    except IntegrationError as problem:
        return _show_deletion(request, detail, mistake=str(problem), status=409)
    messages.success(request, f"{detail.row.name} was deleted with its runs.")
    return see("cron")


@require_GET
@needs(Right.VIEW)
def show_effect(request: HttpRequest) -> HttpResponse:
    """The part of the form that tells what the schedule comes to, asked while it is typed."""
    said = {name: request.GET.get(name, "")[:200] for name in MOMENTS}
    interval: int | None = None
    try:
        if said["interval_seconds"].strip():
            interval = round(durations.read(said["interval_seconds"]))
        shown = effect(said["crontab"], interval, said["time_zone"])
    except ValueError as mistake:
        shown = Effect(mistake=str(mistake))
    return render(request, "console/cron/_moments.html", {"effect": shown})


def _source(request: HttpRequest) -> InstanceDetail | None:
    like = number_of(request.GET.get("like", ""))
    detail = None if like is None else selectors.instance(like, scope_of(request.user))
    return None if detail is None or detail.row.is_consumer else detail


def _copied(source: InstanceDetail | None) -> CronInstance:
    """Begin a copy with the parameters of its source, secrets included."""
    return CronInstance(parameters={} if source is None else source.instance.parameters)


def _form(
    request: HttpRequest,
    definition: Definition,
    instance: CronInstance,
    initial: Mapping[str, Any] | None = None,
) -> CronForm:
    return CronForm(
        request.POST if request.method == "POST" else None,
        instance=instance,
        initial=initial,
        definition=definition,
        judge=Judge(request),
    )


def _blank(request: HttpRequest, definition: Definition, source: InstanceDetail | None) -> CronForm:
    initial: dict[str, Any] = {"name": definition.title}
    if source is not None:
        initial = {name: getattr(source.instance, name) for name in COPIED}
    taken = selectors.names()
    if initial["name"] in taken:
        initial["name"] = free_name(initial["name"], taken)
    begun = _copied(source)
    begun.parameters = {**begun.parameters, **_of_bulk_run(request, definition)}
    return _form(request, definition, begun, initial)


def _of_bulk_run(request: HttpRequest, definition: Definition) -> dict[str, str]:
    """A bulk run of the address, as the parameters of the task that asks for it by schedule."""
    number = parse_id(request.GET.get("bulk_run", ""))
    if number is None or not asks_for_bulk_jobs(definition):
        return {}
    shown = runs.one(number, scope_of(request.user))
    if shown is None or requested(shown.run, request.user).is_cut:
        return {}
    asked = dict(shown.run.job_request)
    if asked.get("masked") is False and not may_reveal(request):
        # In a schedule this would agree to true values, which nobody said of one.
        del asked["masked"]
    return {"job": shown.run.job, "job_request": json.dumps(asked, ensure_ascii=False)}


def _show_form(
    request: HttpRequest,
    form: CronForm,
    *,
    definition: Definition,
    status: int = 200,
    **more: object,
) -> HttpResponse:
    form.lay_out()
    effect_now = form.effect() if form.is_bound or form.instance.pk or form.initial else Effect()
    context = {
        "form": form,
        "definition": definition,
        "effect": effect_now,
        # Showing the effect is no attempt to save: what is still missing is no mistake yet.
        "is_trial": not TRIALS.isdisjoint(request.POST),
        **more,
    }
    return render(request, "console/cron/form.html", context, status=status)


def _show_deletion(
    request: HttpRequest, detail: InstanceDetail, *, mistake: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "detail": detail,
        "instance": detail.row,
        "runs": detail.instance.runs.count(),
        "mistake": mistake,
        "reason": reason_of(request),
    }
    return render(request, "console/cron/delete.html", context, status=status)
