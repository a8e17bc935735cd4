"""Endpoints at work: the list of all, and the page of one."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.delivering.forms import PauseForm
from console.layout.access import Right, has, needs, scope_of
from integration.selectors.delivering import endpoints


@require_GET
@needs(Right.VIEW)
def endpoint_list(request: HttpRequest) -> HttpResponse:
    """Every endpoint a person may know of, those in need first."""
    scope = scope_of(request.user)
    context = {"rows": endpoints.standing(scope), "is_limited": not scope.is_whole}
    return render(request, "console/delivering/list.html", context)


@require_GET
@needs(Right.VIEW)
def endpoint_page(request: HttpRequest, name: str) -> HttpResponse:
    return show_endpoint(request, name)


def show_endpoint(
    request: HttpRequest, name: str, *, status: int = 200, form: PauseForm | None = None
) -> HttpResponse:
    """The page of an endpoint, also as the answer to a verb that was not carried out."""
    reveal = has(request.user, Right.VIEW_PAYLOAD)
    detail = endpoints.detail(name, scope_of(request.user), reveal=reveal)
    if detail is None:
        raise Http404(f"There is no endpoint {name}.")
    context = {
        "detail": detail,
        "row": detail.row,
        "form": form or PauseForm(),
        "reveal": reveal,
    }
    return render(request, "console/delivering/endpoint.html", context, status=status)
