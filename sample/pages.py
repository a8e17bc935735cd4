"""The sample's own page: what its partners got."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.layout.access import Right, needs, scope_of
from sample.removal import is_there
from sample.shares import shares


@require_GET
@needs(Right.VIEW)
def partners_page(request: HttpRequest) -> HttpResponse:
    """Show what was committed for each partner, where it is, and what the partner counts itself."""
    context = {"rows": shares(scope_of(request.user)), "is_there": is_there()}
    return render(request, "sample/partners.html", context)
