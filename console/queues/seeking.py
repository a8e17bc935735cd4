"""The page that moves the position of a queue: what would change, then the confirmation."""

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem
from console.queues.forms import MoveForm, SeekForm
from integration.actions import positions
from integration.actions.errors import QueueAtJmsError
from integration.actions.positions import Request
from integration.actions.queues import refuse_jms
from integration.errors import IntegrationError
from integration.models import Queue
from integration.selectors.queues import queues, seeking
from integration.selectors.queues.seeking import Plan
from integration.selectors.setup.queues import queue_named


@needs(Right.VIEW, Right.OPERATE)
def position(request: HttpRequest, name: str) -> HttpResponse:
    """Where to, in the address; before and after; moved by a POST to the same address."""
    queue = queue_named(name, scope_of(request.user))
    if queue is None:
        raise Http404(f"There is no queue {name}.")
    try:
        refuse_jms(queue.pk)
    except QueueAtJmsError as problem:
        tell_problem(request, problem)
        return see("queue", name)
    if request.method != "POST":
        return _show(request, queue)
    form = MoveForm(request.POST, moves=request.POST.getlist("move"))
    if not form.is_valid():
        return _show(request, queue, status=422, form=form)
    return _moved(request, queue, form)


def _moved(request: HttpRequest, queue: Queue, form: MoveForm) -> HttpResponse:
    said = form.cleaned_data
    asked = Request(actor=actor_of(request), reason=said["reason"], send_again=said["send_again"])
    try:
        facts = seeking.facts_of(queue)
    except IntegrationError as problem:
        # Whoever could not be asked is not asked again for the table.
        tell_problem(request, problem)
        return _show(request, queue, status=409, form=form, asks_broker=False)
    try:
        effects = positions.seek(queue.pk, form.moves, facts=facts, request=asked)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return _show(request, queue, status=409, form=form)
    shown = " ".join(effects) if len(effects) < 4 else f"{len(effects)} positions were moved."
    messages.success(request, f"{shown} The queue stays as it is: resume it to continue.")
    return see("queue", queue.name)


def _show(
    request: HttpRequest,
    queue: Queue,
    *,
    status: int = 200,
    form: MoveForm | None = None,
    asks_broker: bool = True,
) -> HttpResponse:
    partitions = queues.partitions_of(queue.name)
    asked = SeekForm(request.GET if "to" in request.GET else None, partitions=partitions)
    context = {
        "queue": queue,
        "asked": asked,
        "partitions": partitions,
        "plan": _plan(request, queue, asked) if asks_broker else None,
        "stands": queue.paused or not queue.enabled,
        "sends": queue.direction == Queue.Direction.OUTBOUND,
        "form": form or MoveForm(),
    }
    return render(request, "console/queues/position.html", context, status=status)


def _plan(request: HttpRequest, queue: Queue, asked: SeekForm) -> Plan | None:
    """What would change; None, and why, where nobody can be asked."""
    if not asked.is_valid():
        return None
    try:
        return seeking.plan(queue, asked.wanted())
    except IntegrationError as problem:
        tell_problem(request, problem)
        return None
