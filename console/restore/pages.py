"""A copied or restored database: what is known, what is to be decided, and letting it act."""

from collections.abc import Mapping

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem
from integration.actions.configuration import Author
from integration.actions.problems import ReasonMissingError
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.restore import adopting, deciding, examining
from integration.restore.reading import overview

# What the person chose and wrote, kept in a form that was refused.
Written = Mapping[str, str]
LIMITED = "What was restored concerns all partners: ask somebody who is not limited to some."


@require_GET
@needs(Right.VIEW)
def restore_page(request: HttpRequest) -> HttpResponse:
    """Whose database it is, what was found after a restore, and what was decided."""
    return _shown(request)


@needs(Right.VIEW, Right.CONFIGURE)
def adopt(request: HttpRequest) -> HttpResponse:
    """Make the copy this installation's."""
    _refuse_limited(request)
    if request.method != "POST":
        return see("restore-page")
    author = Author(actor_of(request), request.POST.get("reason", ""))
    try:
        told = adopting.adopt(author, twin_is_stopped=request.POST.get("stopped") == "on")
    except IntegrationError as problem:
        return _refused(request, problem)
    messages.success(request, told)
    return see("restore-page")


@needs(Right.VIEW, Right.CONFIGURE)
def declare(request: HttpRequest) -> HttpResponse:
    """A person says that the database was restored; everything is held and looked at."""
    _refuse_limited(request)
    if request.method != "POST":
        return see("restore-page")
    why = request.POST.get("reason", "").strip()
    try:
        if not why:
            raise ReasonMissingError(action="hold everything as after a restore")
        restore = examining.look(examining.declare(why, actor_of(request)))
    except IntegrationError as problem:
        return _refused(request, problem)
    left = restore.findings.filter(decided_at__isnull=True).count()
    if left:
        messages.warning(request, f"{so_many(left, 'decision')} to make; what it concerns is held.")
    else:
        messages.success(request, examining.NOTHING)
    return see("restore-page")


@needs(Right.VIEW, Right.CONFIGURE)
def look(request: HttpRequest) -> HttpResponse:
    """Ask Kafka again; what was decided stays decided."""
    _refuse_limited(request)
    restore = examining.current()
    if request.method != "POST" or restore is None:
        return see("restore-page")
    try:
        if examining.look(restore).closed_at is not None:
            messages.success(request, examining.NOTHING)
    except IntegrationError as problem:
        return _refused(request, problem)
    return see("restore-page")


@needs(Right.VIEW, Right.CONFIGURE)
def decide(request: HttpRequest, finding_id: int) -> HttpResponse:
    """One decision about one finding."""
    _refuse_limited(request)
    if request.method != "POST":
        return see("restore-page")
    word, reason = request.POST.get("word", ""), request.POST.get("reason", "")
    try:
        told = deciding.decide(finding_id, word, actor=actor_of(request), reason=reason)
    except IntegrationError as problem:
        return _refused(request, problem, written={"word": word, "reason": reason})
    messages.success(request, told)
    return see("restore-page")


def _shown(
    request: HttpRequest, *, status: int = 200, written: Written | None = None
) -> HttpResponse:
    if not scope_of(request.user).is_whole:
        return render(request, "console/restore/page.html", {"is_limited": True}, status=status)
    context = {"plan": adopting.planned(), "found": overview(), "written": written}
    return render(request, "console/restore/page.html", context, status=status)


def _refused(
    request: HttpRequest, problem: IntegrationError, written: Written | None = None
) -> HttpResponse:
    tell_problem(request, problem)
    return _shown(request, status=422, written=written)


def _refuse_limited(request: HttpRequest) -> None:
    if not scope_of(request.user).is_whole:
        raise Http404(LIMITED)
