"""A copied or restored database: what is known, what is to be decided, and letting it act."""

from collections.abc import Callable
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, reason_of, see, tell_problem
from integration.actions.configuration import Author
from integration.actions.errors import ReasonMissingError
from integration.counting import so_many
from integration.errors import IntegrationError
from integration.restore import adopting, deciding, examining

LIMITED: Final = "A restore affects all partners. Ask an administrator without a limit."


@require_GET
@needs(Right.VIEW)
def restore_page(request: HttpRequest) -> HttpResponse:
    """Show whose database it is, the findings of a restore, and the decisions."""
    return _shown(request)


def _shown(request: HttpRequest, *, status: int = 200) -> HttpResponse:
    """The page; a form that was refused keeps what the person chose and wrote."""
    if not scope_of(request.user).is_whole:
        return render(request, "console/restore/page.html", {"is_limited": True}, status=status)
    context = {
        "plan": adopting.planned(),
        "overview": examining.overview(),
        "written": request.POST if "word" in request.POST else None,
    }
    return render(request, "console/restore/page.html", context, status=status)


def _verb(verb: Callable[..., None]) -> Callable[..., HttpResponse]:
    """Make a view of a verb, for people without a limit; the page shows a refusal."""

    @needs(Right.VIEW, Right.CONFIGURE)
    def view(request: HttpRequest, /, **of: int) -> HttpResponse:
        if not scope_of(request.user).is_whole:
            raise Http404(LIMITED)
        if request.method == "POST":
            try:
                verb(request, **of)
            except IntegrationError as problem:
                tell_problem(request, problem)
                return _shown(request, status=422)
        return see("restore-page")

    return view


@_verb
def adopt(request: HttpRequest) -> None:
    """Make the copy this installation's."""
    author = Author(actor_of(request), reason_of(request))
    is_stopped = request.POST.get("stopped") == "on"
    messages.success(request, adopting.adopt(author, twin_is_stopped=is_stopped))


@_verb
def declare(request: HttpRequest) -> None:
    """A person says that the database was restored; everything is held and looked at."""
    why = reason_of(request)
    if not why:
        raise ReasonMissingError(action="hold everything as after a restore")
    restore = examining.look(examining.declare(why, actor_of(request)))
    left = restore.findings.filter(decided_at__isnull=True).count()
    if left:
        messages.warning(
            request,
            f"{so_many(left, 'decision is', 'decisions are')} needed; what they affect is on hold.",
        )
    else:
        messages.success(request, examining.NOTHING)


@_verb
def look(request: HttpRequest) -> None:
    """Ask Kafka again; what was decided stays decided."""
    restore = examining.current()
    if restore is not None and examining.look(restore).closed_at is not None:
        messages.success(request, examining.NOTHING)


@_verb
def decide(request: HttpRequest, finding_id: int) -> None:
    """One decision about one finding."""
    word, reason = request.POST.get("word", ""), reason_of(request)
    effect = deciding.decide(finding_id, word, actor=actor_of(request), reason=reason)
    messages.success(request, effect)
