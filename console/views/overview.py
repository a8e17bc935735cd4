"""The first page: every queue, the most urgent first."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.access import Right, needs
from crontasks.crew import crew
from integration.selectors import queues


@require_GET
@needs(Right.VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    alive = crew()
    rows = queues.overview(alive)
    lags = [row.lag for row in rows if row.lag is not None]
    totals = {
        "urgent": sum(row.status.needs_a_person for row in rows),
        "held": sum(row.held for row in rows),
        "retrying": sum(row.retrying for row in rows),
        "lag": sum(lags),
    }
    # An installation without queues needs no worker yet.
    lacks = alive.missing if rows else ()
    context = {"queues": rows, "totals": totals, "lacks": lacks}
    return render(request, "console/overview.html", context)
