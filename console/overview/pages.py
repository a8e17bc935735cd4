"""The first page: what needs a person, most urgent first, then how much flows."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, has, needs, scope_of
from console.overview import beginnings
from console.overview.first_page import first_page, top_causes


@require_GET
@needs(Right.VIEW)
def overview(request: HttpRequest) -> HttpResponse:
    scope = scope_of(request.user)
    page = first_page(scope, reveal=has(request.user, Right.VIEW_PAYLOAD))
    context = {
        "page": page,
        "is_limited": not scope.is_whole,
        "beginning": beginnings.beginning(scope) if not page["count"] else None,
    }
    return render(request, "console/overview/page.html", context)


@require_GET
@needs(Right.VIEW)
def overview_causes(request: HttpRequest) -> HttpResponse:
    """The largest causes alone: grouping a million failures takes longer than a page may."""
    context = {"causes": top_causes(scope_of(request.user))}
    return render(request, "console/overview/causes.html", context)
