"""The page of the messages that wait for a queue at its JMS broker; nothing of it is taken."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout import trail
from console.layout.access import Right, needs, scope_of
from integration.errors import IntegrationError
from integration.selectors.queues import waiting
from integration.selectors.setup.queues import queue_named


@require_GET
@needs(Right.VIEW, Right.VIEW_PAYLOAD)
def waiting_messages(request: HttpRequest, name: str) -> HttpResponse:
    """The first of them with all that they say; why there are none to be seen, if so."""
    queue = queue_named(name, scope_of(request.user))
    if queue is None:
        raise Http404(f"There is no queue {name}.")
    if not queue.provider.is_jms:
        raise Http404(f"{name} reads from Kafka: only what waits at a JMS broker is shown here.")
    context = {"queue": queue, "limits": waiting.SHOWN}
    try:
        there = waiting.waiting(queue)
    except IntegrationError as problem:
        return render(request, "console/queues/waiting.html", context | {"problem": problem})
    if there.messages:
        trail.note_view(request, "queue", queue.pk, f"what waits in {queue.name}")
    return render(request, "console/queues/waiting.html", context | {"waiting": there})
