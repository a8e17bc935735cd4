"""The list of failures and the page of one."""

from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.access import Right, has, needs
from console.filters import FailureFilterForm
from console.mends import mend_of
from integration.selectors import failure as one
from integration.selectors import failures, queues


@require_GET
@needs(Right.VIEW)
def failure_list(request: HttpRequest) -> HttpResponse:
    form = FailureFilterForm(request.GET, queues.names(), failures.codes())
    wanted = form.wanted()
    cursor = failures.Cursor.read(request.GET.get("at", ""))
    context = {
        "form": form,
        "page": failures.page(wanted, cursor),
        "query": form.query(),
        "is_default": wanted.is_default,
        "cap": failures.COUNT_CAP,
    }
    return render(request, "console/failures.html", context)


@require_GET
@needs(Right.VIEW)
def failure_page(request: HttpRequest, error_id: UUID) -> HttpResponse:
    return show_failure(request, error_id)


def show_failure(
    request: HttpRequest, error_id: UUID, *, status: int = 200, late_asked: bool = False
) -> HttpResponse:
    """The page of a failure, also as the answer to a verb that was not carried out."""
    found = one.detail(error_id)
    if found is None:
        raise Http404(
            "This failure is not in the error table (any more); cleanup removes closed ones."
        )
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    context = {
        "detail": found,
        "error": found.error,
        "contents": one.contents(found.error) if may_see else None,
        "late_asked": late_asked,
        "mend": mend_of(found.error, request.user),
    }
    return render(request, "console/failure.html", context, status=status)


@require_GET
@needs(Right.VIEW, Right.VIEW_PAYLOAD)
def record(_: HttpRequest, error_id: UUID) -> HttpResponse:
    """The bytes themselves, as a file: never rendered by the browser."""
    found = one.current_record(error_id)
    if found is None:
        raise Http404("There are no bytes to download.")
    answer = HttpResponse(found, content_type="application/octet-stream")
    answer["Content-Disposition"] = f'attachment; filename="{error_id}.bin"'
    return answer
