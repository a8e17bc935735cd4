"""What people do with a queue: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, see_again, tell_problem
from console.queues.forms import PauseForm
from console.queues.pages import show_queue
from integration.actions import blocks, queues
from integration.actions.blocks import Place
from integration.errors import IntegrationError
from integration.selectors.queues import queues as selectors
from integration.selectors.setup.queues import topic_facts_now

Verb = Callable[[int, str, str], None]


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, str], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        if request.method != "POST":
            return see("queue", name)
        return _carried_out(request, name, verb, request.POST.get("reason", ""), done)

    return view


def _carried_out(
    request: HttpRequest, name: str, verb: Verb, reason: str, done: str
) -> HttpResponse:
    try:
        verb(_id(request, name), actor_of(request), reason)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return show_queue(request, name, status=409)
    messages.success(request, done)
    return see_again(request, "queue", name)


@needs(Right.VIEW, Right.OPERATE)
def pause(request: HttpRequest, name: str) -> HttpResponse:
    """Until a time or until a person resumes it; what cannot be read is told beside its field."""
    if request.method != "POST":
        return see("queue", name)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return show_queue(request, name, status=422, form=form)
    until = form.ends()

    def paused(queue_id: int, actor: str, reason: str) -> None:
        queues.pause(queue_id, actor=actor, reason=reason, until=until)

    goes_on = "" if until is None else f" It goes on by itself at {until:%H:%M} UTC."
    done = f"Paused. The current batch is the last one.{goes_on}"
    return _carried_out(request, name, paused, form.cleaned_data["reason"], done)


def _resume(queue_id: int, actor: str, reason: str) -> None:
    queues.resume(queue_id, actor=actor, reason=reason)


def _enable(queue_id: int, actor: str, reason: str) -> None:
    queues.enable(queue_id, actor=actor, reason=reason)


def _disable(queue_id: int, actor: str, reason: str) -> None:
    queues.disable(queue_id, actor=actor, reason=reason)


def _adopt(place: Place) -> Verb:
    def adopt(queue_id: int, actor: str, reason: str) -> None:
        facts = topic_facts_now(queue_id)
        blocks.adopt(queue_id, place=place, facts=facts, actor=actor, reason=reason)

    return adopt


def _stay(queue_id: int, actor: str, reason: str) -> None:
    blocks.stay_blocked(queue_id, actor=actor, reason=reason)


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
