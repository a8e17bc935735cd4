"""Deleting a queue: what stands in the way, what would go, and the name typed as a confirmation."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.layout.access import Right, needs
from console.layout.answers import actor_of, see
from console.setup.queues.pages import known_queue
from integration.actions import queue_removal
from integration.actions.configuration import Author
from integration.actions.problems import ReasonMissingError
from integration.actions.queue_removal import NameMismatchError
from integration.errors import IntegrationError
from integration.models import Queue


@needs(Right.VIEW, Right.CONFIGURE)
def delete(request: HttpRequest, name: str) -> HttpResponse:
    queue = known_queue(request, name)
    if request.method != "POST":
        return _ask(request, queue)
    reason = request.POST.get("reason", "")[:500]
    author = Author(actor_of(request), reason)
    try:
        queue_removal.remove(queue.pk, author, typed=request.POST.get("name", ""))
    except (NameMismatchError, ReasonMissingError) as mistake:
        return _ask(request, queue, mistake, status=422)
    except IntegrationError as problem:
        return _ask(request, queue, problem, status=409)
    messages.success(request, f"{name} was deleted. Its history stays under Changes.")
    return see("overview")


def _ask(
    request: HttpRequest, queue: Queue, mistake: IntegrationError | None = None, status: int = 200
) -> HttpResponse:
    context = {
        "queue": queue,
        "leaving": queue_removal.leaving(queue),
        "mistake": mistake,
        "name_is_wrong": isinstance(mistake, NameMismatchError),
        "reason": request.POST.get("reason", ""),
        "typed": request.POST.get("name", ""),
    }
    return render(request, "console/setup/queue_delete.html", context, status=status)
