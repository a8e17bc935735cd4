"""What people do with a queue: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse

from console.frame.access import Right, needs, scope_of
from console.frame.answers import actor_of, see, see_again, tell_problem
from console.queues.pages import show_queue
from integration.actions import blocks, queues
from integration.actions.blocks import Place
from integration.errors import IntegrationError
from integration.selectors.queues import queues as selectors
from integration.selectors.setup import topics

Verb = Callable[[int, str, str], None]


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, str], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        if request.method != "POST":
            return see("queue", name)
        try:
            verb(_id(request, name), actor_of(request), request.POST.get("reason", ""))
        except IntegrationError as problem:
            tell_problem(request, problem)
            return show_queue(request, name, status=409)
        messages.success(request, done)
        return see_again(request, "queue", name)

    return view


def _pause(queue_id: int, actor: str, reason: str) -> None:
    queues.pause(queue_id, actor=actor, reason=reason)


def _resume(queue_id: int, actor: str, reason: str) -> None:
    queues.resume(queue_id, actor=actor, reason=reason)


def _enable(queue_id: int, actor: str, reason: str) -> None:
    queues.enable(queue_id, actor=actor, reason=reason)


def _disable(queue_id: int, actor: str, reason: str) -> None:
    queues.disable(queue_id, actor=actor, reason=reason)


def _adopt(place: Place) -> Verb:
    def adopt(queue_id: int, actor: str, reason: str) -> None:
        facts = topics.facts_now(queue_id)
        blocks.adopt(queue_id, place=place, facts=facts, actor=actor, reason=reason)

    return adopt


def _stay(queue_id: int, actor: str, reason: str) -> None:
    blocks.stay_blocked(queue_id, actor=actor, reason=reason)


pause = _verb(_pause, "Paused. The current batch is the last one.")
resume = _verb(_resume, "Resumed. A worker goes on within seconds.")
enable = _verb(_enable, "Switched on. A worker goes on within seconds.")
disable = _verb(_disable, "Switched off. Positions are kept.")
adopt_start = _verb(_adopt(Place.START), "Adopted: the queue goes on at the start of the topic.")
adopt_end = _verb(_adopt(Place.END), "Adopted: the queue goes on with new messages only.")
stay = _verb(_stay, "Noted: the queue stays blocked.")


@needs(Right.VIEW, Right.OPERATE)
def acknowledge_gap(request: HttpRequest, name: str, gap_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return see("queue", name)
    reason = request.POST.get("reason", "")
    queue_id = _id(request, name)
    try:
        blocks.acknowledge_gap(gap_id, queue_id=queue_id, actor=actor_of(request), reason=reason)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return show_queue(request, name, status=409)
    messages.success(request, "Acknowledged. The queue goes on behind the last open gap.")
    return see_again(request, "queue", name)


def _id(request: HttpRequest, name: str) -> int:
    found = selectors.id_of(name, scope_of(request.user))
    if found is None:
        raise Http404(f"There is no queue {name}.")
    return found
