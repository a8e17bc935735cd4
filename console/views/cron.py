"""Cron instances: when they run, how it went, and running one now."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.access import Right, needs
from console.answers import actor_of, see, see_again, tell_problem
from crontasks import actions, selectors
from integration.errors import IntegrationError


@require_GET
@needs(Right.VIEW)
def cron_list(request: HttpRequest) -> HttpResponse:
    return render(request, "console/cron.html", {"instances": selectors.instances()})


@require_GET
@needs(Right.VIEW)
def cron_instance(request: HttpRequest, instance_id: int) -> HttpResponse:
    return _show(request, instance_id)


@needs(Right.VIEW, Right.OPERATE)
def run_now(request: HttpRequest, instance_id: int) -> HttpResponse:
    if request.method != "POST":
        return see("cron-instance", instance_id)
    if selectors.instance(instance_id) is None:
        raise Http404("There is no such instance (any more).")
    try:
        actions.run_now(instance_id, actor=actor_of(request))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show(request, instance_id, status=409)
    messages.success(
        request,
        "Asked for. A worker begins within seconds; a run without work leaves no row.",
    )
    return see_again(request, "cron-instance", instance_id)


def _show(request: HttpRequest, instance_id: int, *, status: int = 200) -> HttpResponse:
    found = selectors.instance(instance_id)
    if found is None:
        raise Http404("There is no such instance (any more).")
    context = {"detail": found, "instance": found.row}
    return render(request, "console/cron_instance.html", context, status=status)
