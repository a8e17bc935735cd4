"""Making, cloning, changing and deleting a queue; what a form comes to is shown before."""

from functools import partial
from typing import Final

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.layout.access import Right, needs, scope_of
from console.layout.answers import reason_of, see
from console.layout.asked import number_of
from console.setup.pages import author_of, removal_hindrance, seen_in, shown_again
from console.setup.queues.effects import ASKING, effects_of
from console.setup.queues.form import QueueForm
from integration.actions import configuration, queue_removal
from integration.actions.errors import ReasonMissingError
from integration.actions.queue_removal import NameMismatchError
from integration.errors import IntegrationError
from integration.models import Queue
from integration.selectors.scope import Scope
from integration.selectors.setup import queues as selectors

# What the address of a new one may choose, and the field of that.
BEGINNINGS: Final = {
    "provider": "provider",
    "system": "system",
    "service": "default_service",
    "endpoint": "endpoint",
}
REMOVAL_UNMASKS: Final = (
    "Masking rules are limited to external systems or queues. After the deletion, they could hide "
    "less of the messages of this topic."
)


@needs(Right.VIEW, Right.CONFIGURE)
def new(request: HttpRequest) -> HttpResponse:
    """A new queue; `?like=NAME` begins with a copy, `?provider=` and so on with a choice.

    Of an endpoint, `?endpoint=`, it is an outbound one.
    """
    scope = scope_of(request.user)
    if request.method != "POST":
        return show_form(request, QueueForm(instance=begun(request, scope), scope=scope))
    form = QueueForm(request.POST, scope=scope)
    if again := shown_again(request, form, partial(show_form, request)):
        return again
    messages.success(request, made_words(form.instance))
    return see("queue", form.instance.name)


@needs(Right.VIEW, Right.CONFIGURE)
def change(request: HttpRequest, name: str) -> HttpResponse:
    """Change a stored queue; nothing is written when somebody else was faster."""
    queue, scope = known_queue(request, name), scope_of(request.user)
    show = partial(show_form, request, name=name)
    if request.method != "POST":
        return show(QueueForm(instance=queue, scope=scope), seen=configuration.stamp(queue))
    form = QueueForm(request.POST, instance=queue, scope=scope)
    if again := shown_again(request, form, show, seen_in(request)):
        return again
    sentence = (
        "Saved. It applies from the next batch on." if form.is_changed else "Nothing was different."
    )
    messages.success(request, sentence)
    return see("queue", form.instance.name)


@needs(Right.VIEW, Right.CONFIGURE)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    """Asked first, with what stands in the way and what would go; its name is typed."""
    queue = known_queue(request, name)
    if request.method != "POST":
        return _show_deletion(request, queue)
    if unmasking := removal_hindrance(request, queue, REMOVAL_UNMASKS):
        return _show_deletion(request, queue, unmasking, status=403)
    try:
        queue_removal.remove(queue.pk, author_of(request), typed=request.POST.get("name", ""))
    except (NameMismatchError, ReasonMissingError) as mistake:
        return _show_deletion(request, queue, mistake, status=422)
    except IntegrationError as problem:
        return _show_deletion(request, queue, problem, status=409)
    messages.success(request, f"{name} was deleted. Its history stays under Changes.")
    return see("overview")


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
        "form": form,
        "effects": effects_of(form, asks_broker=part in ASKING),
        "effects_address": effects_address(name),
        "is_asked": True,
    }
    return render(request, "console/setup/_queue_effect.html", context)


def known_queue(request: HttpRequest, name: str) -> Queue:
    """The queue of this name, if this person may know of it; else a 404."""
    queue = selectors.queue_named(name, scope_of(request.user))
    if queue is None:
        raise Http404(f"There is no queue {name}.")
    return queue


def begun(request: HttpRequest, scope: Scope) -> Queue:
    """The queue a new form begins with: a copy, or what the address chooses."""
    copy = selectors.copy_of(request.GET.get("like", ""), scope)
    if copy is not None:
        return copy
    given = {name: number_of(request.GET.get(name, "")) for name in BEGINNINGS}
    queue = selectors.begun({BEGINNINGS[n]: number for n, number in given.items()}, scope)
    if queue.endpoint_id is not None or request.GET.get("direction") == Queue.Direction.OUTBOUND:
        queue.direction = Queue.Direction.OUTBOUND
    return queue


def made_words(queue: Queue) -> str:
    """The sentence after a queue was added."""
    if queue.direction == Queue.Direction.OUTBOUND and queue.endpoint is not None:
        return (
            f"{queue.name} was added, with its position and its cron instance “Consume "
            f"{queue.name}”: messages published to it are delivered to {queue.endpoint}."
        )
    if queue.direction == Queue.Direction.OUTBOUND:
        return f"{queue.name} was added: handlers can publish to it."
    return (
        f"{queue.name} was added, with its position and its cron instance “Consume {queue.name}”."
    )


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


def effects_address(name: str) -> str:
    return reverse("queue-effects", args=[name]) if name else reverse("queue-new-effects")


def _show_deletion(
    request: HttpRequest,
    queue: Queue,
    mistake: IntegrationError | str | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {
        "queue": queue,
        "leaving": queue_removal.leaving(queue),
        "mistake": mistake,
        "name_is_wrong": isinstance(mistake, NameMismatchError),
        "reason": reason_of(request),
        "typed": request.POST.get("name", ""),
    }
    return render(request, "console/setup/queue_delete.html", context, status=status)
