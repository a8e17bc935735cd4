"""The list of all queues, the page of one, and its flow check."""

from typing import Final

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.layout.access import Right, has, needs, scope_of
from console.layout.standby import from_standby
from console.queues.contents import queue_page as page_of
from console.queues.figures import figures
from console.queues.filters import QueueFilterForm
from console.queues.forms import PauseForm, StopForm
from crontasks.health.flow import check_flow
from crontasks.health.live_processes import live_processes
from integration.errors import IntegrationError
from integration.models import Queue
from integration.selectors.queues import queues, rates
from integration.selectors.queues.membership import GroupRow, group_row

PAGE_ROWS: Final = 25


@require_GET
@needs(Right.VIEW)
@from_standby
def queue_list(request: HttpRequest) -> HttpResponse:
    """Every queue a person may know of, 25 a page: their number is not that of messages."""
    scope = scope_of(request.user)
    rows = queues.standing(live_processes(), scope)
    form = QueueFilterForm(request.GET, sorted({row.system for row in rows if row.system}))
    page = Paginator(form.passed(rows, rates.last_minute(scope)), PAGE_ROWS).get_page(
        request.GET.get("page")
    )
    context = {
        "form": form,
        "page": page,
        "rows": figures(queues.counted(list(page.object_list)), timezone.now()),
        "query": form.query(),
        "all": len(rows),
        "is_limited": not scope.is_whole,
    }
    return render(request, "console/queues/list.html", context)


@require_GET
@needs(Right.VIEW)
def queue_page(request: HttpRequest, name: str) -> HttpResponse:
    return show_queue(request, name)


def show_queue(
    request: HttpRequest,
    name: str,
    *,
    status: int = 200,
    form: PauseForm | None = None,
    stop_form: StopForm | None = None,
) -> HttpResponse:
    """The page of a queue, also as the answer to a verb that was not carried out."""
    reveal = has(request.user, Right.VIEW_PAYLOAD)
    context = page_of(name, scope_of(request.user), reveal=reveal)
    if context is None:
        raise Http404(f"There is no queue {name}.")
    numbers = [row.number for row in context["queue"].partitions]
    context["form"] = form or PauseForm()
    context["stop_form"] = stop_form or StopForm(partitions=numbers)
    return render(request, "console/queues/queue.html", context, status=status)


def _group(queue: Queue) -> GroupRow | None:
    """The members of its group; why they are not known is told by the check."""
    if not queue.joins_group:
        return None
    try:
        return group_row(queue)
    except IntegrationError:
        return None


@require_GET
@needs(Right.VIEW)
def flow_check(request: HttpRequest, name: str) -> HttpResponse:
    """The check asks the broker, so it is a page of its own that others load later."""
    scope = scope_of(request.user)
    queue_id = queues.id_of(name, scope)
    if queue_id is None:
        raise Http404(f"There is no queue {name}.")
    queue = queues.by_id(queue_id)
    context = {"name": name, "links": check_flow(queue, scope), "group": _group(queue)}
    return render(request, "console/queues/flow.html", context)
