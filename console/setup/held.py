"""One click releases what was put on hold while a row of the set-up was off."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse

from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, see, tell_problem
from console.setup.noun import Noun
from console.setup.pages import found_row
from integration.actions.operations import release_held
from integration.actions.problems import NothingChosenError
from integration.errors import IntegrationError


@needs(Right.VIEW, Right.OPERATE)
def release(request: HttpRequest, noun: Noun, number: int) -> HttpResponse:
    """Start the operation and show it; safe to press twice."""
    row = found_row(request, noun, number)
    if request.method != "POST" or noun.held is None:
        return see(noun.one, number)
    if not row.enabled:
        messages.warning(request, f"{row} is switched off; what is released would be held again.")
        return see(noun.one, number)
    try:
        operation = release_held(row, noun.held(row), actor_of(request), scope_of(request.user))
    except NothingChosenError:
        messages.info(request, "Nothing of it is on hold for that any more.")
        return see(noun.one, number)
    except IntegrationError as problem:
        tell_problem(request, problem)
        return see(noun.one, number)
    return see("operation", operation)
