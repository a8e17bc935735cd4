"""Verbs of a queue: each is a POST to a small resource of its own."""

from collections.abc import Callable
from functools import partial
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, carried_out, reason_of, see
from console.queues.forms import DRAIN, PauseForm, StopForm
from console.queues.pages import show_queue
from integration.actions import blocks, queue_stops, queues
from integration.actions.blocks import Place
from integration.selectors.queues import queues as selectors
from integration.selectors.setup.queues import topic_facts_now

# Takes the queue's id, and by keyword who decided and why.
Verb = Callable[..., object]


def _verb(verb: Verb, done: str) -> Callable[[HttpRequest, str], HttpResponse]:
    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, name: str) -> HttpResponse:
        if request.method != "POST":
            return see("queue", name)
        return _carried_out(request, name, verb, done)

    return view


def _carried_out(request: HttpRequest, name: str, verb: Verb, done: str) -> HttpResponse:
    queue_id = selectors.id_of(name, scope_of(request.user))
    if queue_id is None:
        raise Http404(f"There is no queue {name}.")

    def act() -> str:
        verb(queue_id, actor=actor_of(request), reason=reason_of(request))
        return done

    return carried_out(
        request,
        act,
        page="queue",
        subject=name,
        shown=lambda _: show_queue(request, name, status=409),
    )


@needs(Right.VIEW, Right.OPERATE)
def pause(request: HttpRequest, name: str) -> HttpResponse:
    """Until a time or until a person resumes it; a mistake is shown beside its field."""
    if request.method != "POST":
        return see("queue", name)
    form = PauseForm(request.POST)
    if not form.is_valid():
        return show_queue(request, name, status=422, form=form)
    until = form.ends()
    goes_on = "" if until is None else f" It continues by itself at {until:%H:%M} UTC."
    done = f"Paused. The current batch is the last one.{goes_on}"
    return _carried_out(request, name, partial(queues.pause, until=until), done)


@needs(Right.VIEW, Right.OPERATE)
def stop(request: HttpRequest, name: str) -> HttpResponse:
    """Let the queue work up to a place and pause there; a mistake is shown beside its field."""
    if request.method != "POST":
        return see("queue", name)
    partitions = selectors.partitions_of(name, scope_of(request.user))
    form = StopForm(request.POST, partitions=partitions)
    if not form.is_valid():
        return show_queue(request, name, status=422, stop_form=form)
    partition, offset = form.chosen, form.cleaned_data["offset"]

    def told(queue_id: int, *, actor: str, reason: str) -> None:
        more = {"actor": actor, "reason": reason}
        if form.cleaned_data["until"] == DRAIN:
            facts = topic_facts_now(queue_id)
            queue_stops.drain(queue_id, facts=facts, partition=partition, **more)
        else:
            queue_stops.stop_at(queue_id, offset, partition=partition, **more)

    done = "It works up to there, then pauses. How far it is stands below."
    return _carried_out(request, name, told, done)


def _adopt(place: Place) -> Verb:
    def adopt(queue_id: int, *, actor: str, reason: str) -> None:
        facts = topic_facts_now(queue_id)
        blocks.adopt(queue_id, place=place, facts=facts, actor=actor, reason=reason)

    return adopt


resume = _verb(queues.resume, "Resumed. A worker continues within seconds.")
enable = _verb(queues.enable, "Switched on. A worker continues within seconds.")
disable = _verb(queues.disable, "Switched off. Positions are kept.")
adopt_start = _verb(
    _adopt(Place.START), "Adopted: the queue continues from the start of the topic."
)
adopt_end = _verb(_adopt(Place.END), "Adopted: the queue continues with new messages only.")
cancel_stop = _verb(queue_stops.cancel, "Cancelled: the queue stops nowhere any more.")
begin_sooner = _verb(
    blocks.begin_sooner, "Noted. It begins once the others are read up to where they end now."
)
stay = _verb(blocks.stay_blocked, "Recorded: the queue stays blocked.")


@needs(Right.VIEW, Right.OPERATE)
def acknowledge_gap(request: HttpRequest, name: str, gap_id: UUID) -> HttpResponse:
    if request.method != "POST":
        return see("queue", name)

    def acknowledge(queue_id: int, *, actor: str, reason: str) -> None:
        blocks.acknowledge_gap(gap_id, queue_id=queue_id, actor=actor, reason=reason)

    done = "Acknowledged. The queue continues after its last open gap."
    return _carried_out(request, name, acknowledge, done)
