"""The page of one queue and its flow check."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.access import Right, needs
from crontasks.crew import crew
from crontasks.flow import check_flow
from integration.actions.blocks import GAP_CODE, TOPIC_CODES
from integration.selectors import queues


@require_GET
@needs(Right.VIEW)
def queue_page(request: HttpRequest, name: str) -> HttpResponse:
    return show_queue(request, name)


def show_queue(request: HttpRequest, name: str, *, status: int = 200) -> HttpResponse:
    """The page of a queue, also as the answer to a verb that was not carried out."""
    found = queues.detail(name, crew())
    if found is None:
        raise Http404(f"There is no queue {name}.")
    context = {
        "queue": found.row,
        "detail": found,
        "topic_changed": bool(found.row.blocked_codes & TOPIC_CODES),
        "has_open_gap": any(gap.acknowledged_at is None for gap in found.gaps),
        "gap_blocks": GAP_CODE in found.row.blocked_codes,
    }
    return render(request, "console/queue.html", context, status=status)


@require_GET
@needs(Right.VIEW)
def flow_check(request: HttpRequest, name: str) -> HttpResponse:
    """The check asks the broker, so it is a page of its own that others load later."""
    queue_id = queues.id_of(name)
    if queue_id is None:
        raise Http404(f"There is no queue {name}.")
    context = {"name": name, "links": check_flow(queues.by_id(queue_id))}
    return render(request, "console/flow.html", context)
