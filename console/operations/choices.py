"""From a selection of failures to a planned operation over exactly these; nothing is done yet."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from console.failures.filters import FailureFilterForm
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, parse_id, see, see_list
from console.layout.asked import chosen_of, number_of, query_of
from console.operations.pages import need_right_of
from integration.actions import operations
from integration.actions.operation_problems import NothingChosenError
from integration.actions.operations import OperationRequest
from integration.policy.moves import VERBS
from integration.selectors.failures import failures


@needs(Right.VIEW, Right.OPERATE)
def review(request: HttpRequest) -> HttpResponse:
    """Freeze the ticked failures, or all that match, and show what the verb would touch."""
    verb = request.POST.get("verb", "")
    if request.method != "POST" or verb not in VERBS:
        return see("failures")
    need_right_of(request, verb)
    form = FailureFilterForm(
        query_of(request), may_see_payload=has(request.user, Right.VIEW_PAYLOAD)
    )
    asked = OperationRequest(verb=verb, actor=actor_of(request), query=form.query())
    try:
        return see("operation", _planned(request, form, asked))
    except NothingChosenError as problem:
        messages.info(request, str(problem))
        return see_list("failure-list", form.query())


def _planned(request: HttpRequest, form: FailureFilterForm, asked: OperationRequest) -> UUID:
    scope = scope_of(request.user)
    if request.POST.get("scope") != "matching":
        return operations.plan_chosen(chosen_of(request, _mark), asked, scope)
    form.refuse_unreadable()
    return operations.plan_matching(failures.matching(form.wanted(), scope), asked)


def _mark(text: str) -> tuple[UUID, int] | None:
    """`id:version` as the list shows it."""
    row, _, seen = text.partition(":")
    error_id, version = parse_id(row), number_of(seen)
    # The column is an integer: a larger number is nobody's version.
    if error_id is None or version is None or version >= 2**31:
        return None
    return error_id, version
