"""Decisions about operations: each verb is a POST to a small resource of its own."""

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from console.failures.filters import FailureFilterForm, with_cause_id
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import (
    actor_of,
    parse_id,
    reason_of,
    see,
    see_list,
    see_part,
    tell_problem,
    version_of,
)
from console.layout.asked import chosen_of, number_of, query_of
from console.layout.reveals import may_reveal
from console.operations.forms import RateForm, RecipeForm, StartForm
from console.operations.pages import show, wanted
from integration.actions import operation_trials, operations
from integration.actions.errors import NothingChosenError
from integration.errors import IntegrationError
from integration.models import Operation
from integration.policy.moves import EDIT, VERBS
from integration.recipes import Unreadable, compile_recipe, telling_step
from integration.selectors.failures import failures
from integration.selectors.masking.errors import MaskedSourceError
from integration.selectors.masking.rules import any_masked
from integration.selectors.operations import operations as selector
from integration.selectors.operations.operations import Show

Verb = Callable[[HttpRequest, Operation], HttpResponse | None]
View = Callable[[HttpRequest, UUID], HttpResponse]


@needs(Right.VIEW, Right.OPERATE)
def review(request: HttpRequest) -> HttpResponse:
    """Freeze the ticked failures, or all that match, and show what the verb would touch."""
    verb = request.POST.get("verb", "")
    if request.method != "POST" or verb not in VERBS:
        return see("failures")
    _need_right_of(request, verb)
    form = FailureFilterForm(
        query_of(request), may_see_payload=has(request.user, Right.VIEW_PAYLOAD)
    )
    try:
        return see("operation", _planned(request, form, verb))
    except NothingChosenError as problem:
        messages.info(request, str(problem))
        return see_list("failure-list", form.query())


def _planned(request: HttpRequest, form: FailureFilterForm, verb: str) -> UUID:
    scope, actor = scope_of(request.user), actor_of(request)
    if request.POST.get("scope") != "matching":
        chosen = chosen_of(request, _mark)
        return operations.plan_chosen(chosen, scope, verb=verb, actor=actor, query=form.query())
    form.refuse_unreadable()
    matching = failures.matching(form.wanted(), scope)
    return operations.plan_matching(matching, verb=verb, actor=actor, query=form.query())


def _mark(text: str) -> tuple[UUID, int] | None:
    """`id:version` as the list shows it."""
    row, _, seen = text.partition(":")
    error_id, version = parse_id(row), number_of(seen)
    # The column is an integer: a larger number is nobody's version.
    if error_id is None or version is None or version >= 2**31:
        return None
    return error_id, version


def _need_right_of(request: HttpRequest, verb: str) -> None:
    """An edit needs the right to change payloads too. Raises PermissionDenied."""
    if verb == EDIT.action and not has(request.user, Right.EDIT_PAYLOAD):
        raise PermissionDenied(Right.EDIT_PAYLOAD.missing)


def _verb(done: str = "", *more: Right) -> Callable[[Verb], View]:
    """Make a view of a verb: it answers by itself, or says what was `done` on the page."""

    def made(verb: Verb) -> View:
        @needs(Right.VIEW, Right.OPERATE, *more)
        def view(request: HttpRequest, operation_id: UUID) -> HttpResponse:
            operation = wanted(request, operation_id)
            if request.method != "POST":
                return see("operation", operation_id)
            try:
                answer = verb(request, operation)
            except IntegrationError as problem:
                return _refused(request, operation, problem)
            if answer is None and done:
                messages.success(request, done)
            return answer or see("operation", operation_id)

        return view

    return made


def refuse_telling(request: HttpRequest, operation: Operation, recipe: str) -> None:
    """Raises MaskedSourceError for a recipe that would tell masked values to who may not reveal."""
    try:
        step = telling_step(compile_recipe(recipe))
    except Unreadable:
        return  # It is refused by itself, with a better sentence.
    if step and not may_reveal(request) and any_masked(operation.queues):
        raise MaskedSourceError(step)


def _refused(
    request: HttpRequest,
    operation: Operation,
    problem: IntegrationError,
    form: StartForm | RecipeForm | None = None,
) -> HttpResponse:
    """The page as it is by now, with the reason of the refusal and what the person filled in."""
    tell_problem(request, problem)
    return show(request, wanted(request, operation.pk), status=409, form=form)


@_verb()
def start(request: HttpRequest, operation: Operation) -> HttpResponse | None:
    """Begin, with the first message alone or with all."""
    _need_right_of(request, operation.verb)
    form = StartForm(operation, request.POST)
    if not form.is_valid():
        return show(request, operation, status=422, form=form)
    options = form.options(first_only=request.POST.get("first") == "1")
    try:
        operations.start(
            operation.pk,
            options,
            version=version_of(request),
            actor=actor_of(request),
            scope=scope_of(request.user),
        )
    except IntegrationError as problem:
        return _refused(request, operation, problem, form)
    return None


@_verb("Paused. What is done stays done; the rest waits.")
def pause(request: HttpRequest, operation: Operation) -> None:
    reason = reason_of(request)
    operations.pause(operation.pk, actor=actor_of(request), reason=reason)


@_verb("Resumed.")
def resume(request: HttpRequest, operation: Operation) -> None:
    _need_right_of(request, operation.verb)
    version, one_first = version_of(request), request.POST.get("first") == "1"
    operations.resume(
        operation.pk,
        version=version,
        actor=actor_of(request),
        one_first=one_first,
        scope=scope_of(request.user),
    )


@_verb("Cancelled. What is done stays done; the rest was left as it is.")
def cancel(request: HttpRequest, operation: Operation) -> None:
    reason = reason_of(request)
    operations.cancel(operation.pk, actor=actor_of(request), reason=reason)


@_verb("The rate is changed; the runner keeps to it within a second.")
def change_rate(request: HttpRequest, operation: Operation) -> HttpResponse | None:
    form, version = RateForm(request.POST), version_of(request)
    if not form.is_valid():
        return show(request, operation, status=422, form=form)
    rate = form.cleaned_data["rate"]
    operations.change_rate(operation.pk, rate, version=version, actor=actor_of(request))
    return None


@_verb()
def again(request: HttpRequest, operation: Operation) -> HttpResponse | None:
    """Plan a new operation over the part that failed again, or that was left alone."""
    part, verb = request.POST.get("part", ""), request.POST.get("verb", "")
    if verb not in VERBS or part not in {Show.FAILED, Show.SKIPPED}:
        return None
    _need_right_of(request, verb)
    chosen, scope = selector.again(operation, Show(part)), scope_of(request.user)
    query = with_cause_id(operation.query)
    asked = {"verb": verb, "actor": actor_of(request), "query": query}
    try:
        successor = operations.plan_chosen(chosen, scope, **asked, retry_of=operation.pk)
    except NothingChosenError as problem:
        tell_problem(request, problem)
        return None
    return see("operation", successor)


@_verb("", Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def set_recipe(request: HttpRequest, operation: Operation) -> HttpResponse:
    """Keep what an edit changes and try it on as many messages as a request has time for."""
    form = RecipeForm(request.POST)
    if not form.is_valid():
        return show(request, operation, status=422, form=form)
    recipe, version = form.cleaned_data["recipe"], version_of(request)
    try:
        refuse_telling(request, operation, recipe)
        operations.set_recipe(operation.pk, recipe, version=version)
    except IntegrationError as problem:
        return _refused(request, operation, problem, form)
    operation_trials.go_on_trying(operation.pk)
    return see_part("trial", "operation", operation.pk)


@_verb("", Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD)
def go_on_trying(_: HttpRequest, operation: Operation) -> None:
    """Another slice of the dry run; pages with htmx ask for it by themselves."""
    operation_trials.go_on_trying(operation.pk)
