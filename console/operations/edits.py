"""What a bulk edit changes, and its dry run; nothing is stored in any message here."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse

from console.layout.access import Right, needs
from console.layout.answers import see, see_part, tell_problem, version_of
from console.operations.forms import RecipeForm
from console.operations.pages import show, wanted
from integration.actions import operation_trial, operations
from integration.errors import IntegrationError


@needs(Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def set_recipe(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Keep the change and try it on as many messages as a request has time for."""
    operation = wanted(request, operation_id)
    if request.method != "POST":
        return see("operation", operation_id)
    form = RecipeForm(request.POST)
    if not form.is_valid():
        return show(request, operation, status=422, recipe_form=form)
    try:
        operations.set_recipe(
            operation_id, form.cleaned_data["recipe"], version=version_of(request)
        )
    except IntegrationError as problem:
        tell_problem(request, problem)
        return show(request, wanted(request, operation_id), status=409, recipe_form=form)
    operation_trial.go_on(operation_id)
    return see_part("trial", "operation", operation_id)


@needs(Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def go_on_trying(request: HttpRequest, operation_id: UUID) -> HttpResponse:
    """Another slice of the dry run; pages with htmx ask for it by themselves."""
    wanted(request, operation_id)
    if request.method == "POST":
        operation_trial.go_on(operation_id)
    return see("operation", operation_id)
