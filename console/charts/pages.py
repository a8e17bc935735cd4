"""The last day by the hour: failures by cause, messages in and out, and how long they took."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.charts.drawings import bars, cause_rows, hour_rows, latency_lines
from console.layout.access import Right, needs, scope_of
from console.layout.standby import from_standby
from integration.selectors.charts import (
    failures_by_hour,
    last_hours,
    latency_by_hour,
    queues_of,
    throughput_by_hour,
)
from integration.selectors.queues.queues import names


@require_GET
@needs(Right.VIEW)
@from_standby
def charts(request: HttpRequest) -> HttpResponse:
    """Of all queues that this person may know of, or of the one that the address names."""
    scope = scope_of(request.user)
    offered = names(scope)
    queue = request.GET.get("queue", "")
    queue = queue if queue in offered else ""
    hours, queues = last_hours(), queues_of(scope, queue)
    failures = failures_by_hour(hours, queues, is_all=scope.is_whole and not queue)
    throughput = throughput_by_hour(hours, queues)
    latency = latency_by_hour(hours, queues)
    context = {
        "queue": queue,
        "queues": offered,
        "hours": hours,
        "failures": failures,
        "causes": cause_rows(failures),
        "failed": bars(failures.hours, "first failures"),
        "incoming": bars([one.incoming for one in throughput], "received"),
        "settled": bars([one.settled for one in throughput], "settled"),
        "has_samples": any(one.settled is not None for one in throughput),
        "latency": latency_lines(hours, latency),
        "rows": hour_rows(hours, failures, throughput, latency),
    }
    return render(request, "console/charts/page.html", context)
