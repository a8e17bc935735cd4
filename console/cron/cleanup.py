"""Cleanup: what it removes and keeps, counted before it happens."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from console.layout.asked import number_of
from crontasks.cleanup import selectors as cleanups
from integration.errors import IntegrationError
from integration.removals import registry


@require_GET
@needs(Right.VIEW)
def cleanup_page(request: HttpRequest) -> HttpResponse:
    """The rules and their last runs; `?simulate=NUMBER` counts what that cleanup would remove."""
    if not scope_of(request.user).is_whole:
        return render(request, "console/cron/cleanup.html", {"is_limited": True})
    context: dict[str, object] = {
        "cleanups": cleanups.cleanups(),
        "removals": [one for one in registry if one.is_there()],
    }
    wanted = number_of(request.GET.get("simulate", ""))
    status = 200
    if wanted is not None:
        try:
            found = cleanups.simulate(wanted)
        except IntegrationError as problem:
            context["problem"], status = problem, 503
        else:
            if found is None:
                raise Http404("There is no such cleanup (any more).")
            context["simulation"] = found
        context["simulated"] = wanted
    return render(request, "console/cron/cleanup.html", context, status=status)
