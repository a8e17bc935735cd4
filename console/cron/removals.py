"""Taking away what an app brought along, such as the sample: asked first, with a typed word."""

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see
from integration import removals
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.removals import Removal

LIMITED = (
    "You may know of some external systems only, and this takes away others as well. Ask an "
    "administrator whom nothing limits."
)


@needs(Right.VIEW, Right.CONFIGURE)
def removal(request: HttpRequest, name: str) -> HttpResponse:
    """What would go, and then its removal, which takes some seconds."""
    found = removals.registry.get(name)
    if found is None or not found.is_there():
        raise Http404("There is nothing of this name that could be taken away.")
    if not scope_of(request.user).is_whole:
        raise PermissionDenied(LIMITED)
    if request.method != "POST":
        return _show(request, found)
    author = Author(actor_of(request), request.POST.get("reason", "").strip()[:500])
    try:
        told = removals.carry_out(found, author, typed=request.POST.get("word", ""))
    except IntegrationError as problem:
        is_unconfirmed = isinstance(problem, removals.NotConfirmedError)
        return _show(request, found, mistake=str(problem), status=422 if is_unconfirmed else 409)
    messages.success(request, f"{found.title} is gone: {'; '.join(told)}.")
    return see("overview")


def _show(
    request: HttpRequest, found: Removal, *, mistake: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "removal": found,
        "goes": found.goes(),
        "mistake": mistake,
        "reason": request.POST.get("reason", ""),
    }
    return render(request, "console/cron/removal.html", context, status=status)
