"""Cleanup: what it removes, counted before it happens; taking away what an app brought."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from console.layout.answers import reason_of, see
from console.layout.asked import number_of
from console.setup.pages import author_of
from crontasks.cleanup import selectors as cleanups
from integration import removals
from integration.errors import IntegrationError
from integration.removals import Removal

LIMITED = (
    "Your account is limited to some external systems, and this removes others as well. Ask an "
    "administrator without that limit."
)


@require_GET
@needs(Right.VIEW)
def cleanup_page(request: HttpRequest) -> HttpResponse:
    """The rules and their last runs; `?simulate=NUMBER` counts what that cleanup would remove."""
    if not scope_of(request.user).is_whole:
        return render(request, "console/cron/cleanup.html", {"is_limited": True})
    context: dict[str, object] = {
        "cleanups": cleanups.cleanups(),
        "removals": [one for one in removals.registry if one.is_there()],
    }
    wanted = number_of(request.GET.get("simulate", ""))
    status = 200
    if wanted is not None:
        try:
            simulation = cleanups.simulate(wanted)
        except IntegrationError as problem:
            context["problem"], status = problem, 503
        else:
            if simulation is None:
                raise Http404("There is no such cleanup; it may have been deleted.")
            context["simulation"] = simulation
        context["simulated"] = wanted
    return render(request, "console/cron/cleanup.html", context, status=status)


@needs(Right.VIEW, Right.CONFIGURE)
def removal(request: HttpRequest, name: str) -> HttpResponse:
    """Show what would go, then remove it, which takes some seconds."""
    known = removals.registry.get(name)
    if known is None or not known.is_there():
        raise Http404("There is nothing of this name that can be removed.")
    if not scope_of(request.user).is_whole:
        raise PermissionDenied(LIMITED)
    if request.method != "POST":
        return _show_removal(request, known)
    try:
        gone = removals.carry_out(known, author_of(request), typed=request.POST.get("word", ""))
    except IntegrationError as problem:
        is_unconfirmed = isinstance(problem, removals.NotConfirmedError)
        status = 422 if is_unconfirmed else 409
        return _show_removal(request, known, mistake=str(problem), status=status)
    messages.success(request, f"{known.title} was removed: {'; '.join(gone)}.")
    return see("overview")


def _show_removal(
    request: HttpRequest, known: Removal, *, mistake: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "removal": known,
        "goes": known.goes(),
        "mistake": mistake,
        "reason": reason_of(request),
    }
    return render(request, "console/cron/removal.html", context, status=status)
