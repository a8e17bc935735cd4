"""Notices: what is wrong now, who was told, and who sees to it."""

from collections.abc import Callable
from functools import partial
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from console.layout.answers import see_again, tell_problem
from console.notices.forms import SnoozeForm
from console.notices.words import kinds
from console.setup.pages import author_of
from crontasks.models.notice import NoticeKind
from crontasks.notices import actions, selectors
from integration.actions.configuration import Author
from integration.errors import IntegrationError

GONE: Final = "There is no such notice; those that are over are removed after some time."


@require_GET
@needs(Right.VIEW)
def notice_list(request: HttpRequest) -> HttpResponse:
    """Open ones first; `?kind=LAG` shows one kind."""
    return _show(request)


@needs(Right.VIEW, Right.OPERATE)
def acknowledge(request: HttpRequest, notice_id: int) -> HttpResponse:
    """Note who sees to it; safe to press twice."""
    done = "Acknowledged. Nobody is reminded of it any more; its end is told."
    again = "Somebody has acknowledged it already."
    return _carried_out(request, notice_id, actions.acknowledge, (done, again))


@needs(Right.VIEW, Right.OPERATE)
def take_back(request: HttpRequest, notice_id: int) -> HttpResponse:
    """Nobody sees to it after all."""
    done = "Taken back. People are told of it again."
    again = "Nobody had acknowledged or snoozed it."
    return _carried_out(request, notice_id, actions.take_back, (done, again))


@needs(Right.VIEW, Right.OPERATE)
def snooze(request: HttpRequest, notice_id: int) -> HttpResponse:
    """Tell nobody for some time; a mistake is said above the list."""
    if request.method != "POST":
        return see_again(request, "notices")
    form = SnoozeForm(request.POST)
    if not form.is_valid():
        mistakes = " ".join(str(text) for texts in form.errors.values() for text in texts)
        messages.warning(request, f"Nothing was changed: {mistakes}")
        return _show(request, status=422)
    until = form.until()

    def act(number: int, author: Author) -> bool:
        actions.snooze(number, until, author)
        return True

    done = f"Snoozed until {until:%d %B %H:%M} UTC. Its end is told at once."
    return _carried_out(request, notice_id, act, (done, ""))


def _carried_out(
    request: HttpRequest,
    notice_id: int,
    act: Callable[[int, Author], bool],
    words: tuple[str, str],
) -> HttpResponse:
    if request.method != "POST":
        return see_again(request, "notices")
    if selectors.one(notice_id, scope_of(request.user)) is None:
        raise Http404(GONE)
    done, again = words
    try:
        is_done = act(notice_id, author_of(request))
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show(request, status=409)
    say = partial(messages.success, request) if is_done else partial(messages.info, request)
    say(done if is_done else again)
    return see_again(request, "notices")


def _show(request: HttpRequest, *, status: int = 200) -> HttpResponse:
    kind = request.GET.get("kind", "")
    kind = kind if kind in NoticeKind.values else ""
    scope = scope_of(request.user)
    context = {
        "page": selectors.page(scope, kind),
        "kind": kind,
        "form": SnoozeForm(),
        "every_kind": [] if kind else list(kinds()),
        "is_limited": not scope.is_whole,
        "api_query": f"kind={kind}" if kind else "",
    }
    return render(request, "console/notices/list.html", context, status=status)
