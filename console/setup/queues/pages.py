"""Making, cloning and changing a queue; the effect of the form is shown before it is saved."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.forms.conflicts import conflict_of
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see
from console.layout.asked import number_of
from console.setup.queues.effects import ASKING, effects_of
from console.setup.queues.form import QueueForm
from integration.actions import configuration, queue_setup
from integration.actions.configuration import Author
from integration.actions.problems import ChangedMeanwhileError
from integration.errors import IntegrationError
from integration.models import Queue
from integration.selectors.scope import Scope
from integration.selectors.setup import queues as queue_selectors

TAKEN = "Somebody else has just taken this name or this topic. Choose another one."
SHOW = "show"


@needs(Right.VIEW, Right.CONFIGURE)
def new(request: HttpRequest) -> HttpResponse:
    """A new queue; `?like=NAME` begins with a copy, `?provider=` and so on with a choice.

    Of an endpoint, `?endpoint=`, it is an outbound one.
    """
    scope = scope_of(request.user)
    if request.method != "POST":
        form = QueueForm(instance=begun(request, scope), scope=scope)
        return show_form(request, form)
    form = QueueForm(request.POST, scope=scope, asks_broker=SHOW not in request.POST)
    is_good = form.is_valid()
    if SHOW in request.POST:
        return show_form(request, form)
    if is_good and made(form, Author(actor_of(request), form.why)):
        messages.success(request, told(form.instance))
        return see("queue", form.instance.name)
    return show_form(request, form, status=422)


@needs(Right.VIEW, Right.CONFIGURE)
def change(request: HttpRequest, name: str) -> HttpResponse:
    """What may still change of a queue; nothing is written when somebody else was faster."""
    queue, scope = known_queue(request, name), scope_of(request.user)
    seen = request.POST.get("seen", "")[:64] or configuration.stamp(queue)
    if request.method != "POST":
        return show_form(request, QueueForm(instance=queue, scope=scope), seen=seen, name=name)
    form = QueueForm(
        request.POST, instance=queue, scope=scope, asks_broker=SHOW not in request.POST
    )
    is_good = form.is_valid()
    if SHOW in request.POST:
        return show_form(request, form, seen=seen, name=name)
    try:
        if is_good and _changed(request, form, seen):
            return see("queue", form.instance.name)
    except ChangedMeanwhileError as problem:
        found = conflict_of(problem, form.instance)
        return show_form(request, form, status=409, name=name, **found)
    return show_form(request, form, status=422, seen=seen, name=name)


@needs(Right.VIEW, Right.CONFIGURE)
def effects(request: HttpRequest, name: str = "") -> HttpResponse:
    """One part's effect, for htmx; the page shows the same with its button."""
    if request.method != "POST":
        return see("queue-change", name) if name else see("queue-new")
    scope = scope_of(request.user)
    queue = known_queue(request, name) if name else Queue()
    form = QueueForm(request.POST, instance=queue, scope=scope, asks_broker=False)
    form.is_valid()
    part = request.GET.get("part", "")
    context = {
        "part": part,
        "effects": effects_of(form, asks_broker=part in ASKING),
        "effects_address": effects_address(name),
        "is_asked": True,
    }
    return render(request, "console/setup/_queue_effect.html", context)


def known_queue(request: HttpRequest, name: str) -> Queue:
    """The queue of this name, if this person may know of it; else a 404."""
    queue = queue_selectors.queue_named(name, scope_of(request.user))
    if queue is None:
        raise Http404(f"There is no queue {name}.")
    return queue


def begun(request: HttpRequest, scope: Scope) -> Queue:
    """The queue a new form begins with: a copy, or what the address chooses."""
    copy = queue_selectors.copy_of(request.GET.get("like", ""), scope)
    if copy is not None:
        return copy
    given = {"provider": "provider", "system": "system", "default_service": "service"}
    given["endpoint"] = "endpoint"
    read = {field: number_of(request.GET.get(name, "")) for field, name in given.items()}
    queue = queue_selectors.begun({f: n for f, n in read.items() if n is not None}, scope)
    if queue.endpoint_id is not None or request.GET.get("direction") == Queue.Direction.OUTBOUND:
        queue.direction = Queue.Direction.OUTBOUND
    return queue


def made(form: QueueForm, author: Author) -> bool:
    """Whether the queue of a good form was made; if not, the form tells why."""
    try:
        queue_setup.create(form.instance, author, form.making)
    except (IntegrationError, ValidationError) as problem:
        form.tell(problem)
    except IntegrityError:
        form.add_error(None, TAKEN)
    else:
        return True
    # The row was rolled back, and the form is shown again as that of a new one.
    form.instance.pk = None
    return False


def told(queue: Queue) -> str:
    """What there is after a queue was made, as a sentence."""
    if queue.direction == Queue.Direction.OUTBOUND and queue.endpoint is not None:
        return (
            f"{queue.name} is there, with its position and its cron instance “Consume "
            f"{queue.name}”: what handlers publish to it is delivered to {queue.endpoint}."
        )
    if queue.direction == Queue.Direction.OUTBOUND:
        return f"{queue.name} is there: handlers can publish to it."
    return f"{queue.name} is there, with its position and its cron instance “Consume {queue.name}”."


def show_form(
    request: HttpRequest, form: QueueForm, *, status: int = 200, **more: object
) -> HttpResponse:
    """The form's page. In `more`: `seen` and `name` of a stored queue."""
    form.lay_out()
    name = str(more.get("name", ""))
    context = {
        "form": form,
        "effects": effects_of(form, asks_broker=form.is_bound),
        "effects_address": effects_address(name),
        # Asked for by itself where the topic is known already.
        "is_asked": form.is_bound,
        "is_new": form.is_new,
        **more,
    }
    return render(request, "console/setup/queue_form.html", context, status=status)


def _changed(request: HttpRequest, form: QueueForm, seen: str) -> bool:
    author = Author(actor_of(request), form.why)
    try:
        is_changed = queue_setup.change(form.instance, author, form.making, seen=seen)
    except ChangedMeanwhileError:
        raise
    except (IntegrationError, ValidationError) as problem:
        form.tell(problem)
    except IntegrityError:
        form.add_error(None, TAKEN)
    else:
        sentence = "Saved: the next batch obeys it." if is_changed else "Nothing was different."
        messages.success(request, sentence)
        return True
    return False


def effects_address(name: str) -> str:
    return reverse("queue-effects", args=[name]) if name else reverse("queue-new-effects")
