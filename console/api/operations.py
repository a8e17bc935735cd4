"""Operations over many failures, over HTTP: plan, try, start, steer and follow them."""

from typing import Final, cast
from uuid import UUID

from django.http import HttpRequest, QueryDict
from ninja import Router

from console.api.errors import BadInputError
from console.api.failure_filters import cursor_of, filter_form
from console.api.operation_answers import (
    Again,
    ChangeRate,
    ItemLine,
    ItemLines,
    OperationDetail,
    OperationLine,
    OperationPage,
    Plan,
    Resume,
    SetRecipe,
    Start,
)
from console.api.routes import Decision, acting, operation, reading
from console.failures.filters import with_cause_id
from console.layout.access import Right, has, require, scope_of
from console.layout.answers import actor_of
from console.operations.pages import wanted
from console.operations.verbs import refuse_telling
from integration.actions import operation_trials
from integration.actions import operations as actions
from integration.actions.operations import Options
from integration.policy.moves import EDIT
from integration.policy.operations import StopRule
from integration.policy.states import OperationState
from integration.selectors.failures import failures
from integration.selectors.operations import operations as selector
from integration.selectors.operations.operations import Show

router: Final = Router(tags=["operations"])
ONE: Final = "/operations/{uuid:operation_id}"
EITHER: Final = "Name “failures” or a “filter”: one of them."


@reading(router, "/operations", answer=OperationPage)
def list_operations(
    request: HttpRequest, state: OperationState | None = None, at: str | None = None
) -> OperationPage:
    """Operations, the newest first."""
    page = selector.page(scope_of(request.user), cursor_of(at), state=state or "")
    sees = has(request.user, Right.VIEW_PAYLOAD)
    lines = [OperationLine.of(row, sees_payloads=sees) for row in page.operations]
    return OperationPage(operations=lines, next=page.older or None)


@reading(router, ONE, answer=OperationDetail)
def read_operation(request: HttpRequest, operation_id: UUID) -> OperationDetail:
    """One operation, how far it is, and what became of its messages."""
    return _shown(request, operation_id)


@reading(router, f"{ONE}/items", answer=ItemLines)
def list_items(
    request: HttpRequest, operation_id: UUID, show: Show = Show.ALL, after: int = -1
) -> ItemLines:
    """The messages of an operation, 25 a page."""
    if not -1 <= after < 2**31:
        raise BadInputError("“after” is no place of a message: take it from “next” of an answer.")
    page = selector.items(wanted(request, operation_id).pk, show, after)
    lines = [
        ItemLine(failure=item.error, **{name: getattr(item, name) for name in _ITEM})
        for item in page.items
    ]
    return ItemLines(items=lines, next=page.after)


_ITEM: Final = tuple(name for name in ItemLine.model_fields if name != "failure")


@acting(
    router,
    "POST",
    "/operations",
    *(Right.VIEW, Right.OPERATE),
    answer=OperationDetail,
    status=201,
)
def plan_operation(request: HttpRequest, plan: Plan) -> OperationDetail:
    """Freeze the failures that are meant. Nothing is done to them before it is started."""
    _need_right_of(request, plan.verb)
    return _shown(request, _planned(request, plan))


@acting(router, "POST", f"{ONE}/starts", Right.VIEW, Right.OPERATE, answer=OperationDetail)
def start_operation(request: HttpRequest, operation_id: UUID, start: Start) -> OperationDetail:
    """Begin, with the first message alone or with all."""
    planned = wanted(request, operation_id)
    _need_right_of(request, planned.verb)
    actions.start(
        planned.pk,
        _options(start),
        version=start.version,
        actor=actor_of(request),
        scope=scope_of(request.user),
    )
    return _shown(request, operation_id)


@acting(router, "POST", f"{ONE}/pauses", Right.VIEW, Right.OPERATE, answer=OperationDetail)
def pause_operation(request: HttpRequest, operation_id: UUID, why: Decision) -> OperationDetail:
    """Let it rest after its chunk. What is done stays done."""
    found = wanted(request, operation_id)
    actions.pause(found.pk, actor=actor_of(request), reason=why.reason)
    return _shown(request, operation_id)


@acting(router, "POST", f"{ONE}/resumptions", Right.VIEW, Right.OPERATE, answer=OperationDetail)
def resume_operation(request: HttpRequest, operation_id: UUID, asked: Resume) -> OperationDetail:
    """Go on."""
    found = wanted(request, operation_id)
    _need_right_of(request, found.verb)
    actions.resume(
        found.pk,
        version=asked.version,
        actor=actor_of(request),
        one_first=asked.first_only,
        scope=scope_of(request.user),
    )
    return _shown(request, operation_id)


@acting(router, "POST", f"{ONE}/cancellations", Right.VIEW, Right.OPERATE, answer=OperationDetail)
def cancel_operation(request: HttpRequest, operation_id: UUID, why: Decision) -> OperationDetail:
    """End it: what is done stays done, the rest is left as it is."""
    found = wanted(request, operation_id)
    actions.cancel(found.pk, actor=actor_of(request), reason=why.reason)
    return _shown(request, operation_id)


@acting(router, "PUT", f"{ONE}/rate", Right.VIEW, Right.OPERATE, answer=OperationDetail)
def change_rate(request: HttpRequest, operation_id: UUID, asked: ChangeRate) -> OperationDetail:
    """Set how many messages a second are taken, also while it runs."""
    found, actor = wanted(request, operation_id), actor_of(request)
    actions.change_rate(found.pk, asked.rate, version=asked.version, actor=actor)
    return _shown(request, operation_id)


@acting(
    router,
    "POST",
    f"{ONE}/successors",
    *(Right.VIEW, Right.OPERATE),
    answer=OperationDetail,
    status=201,
)
def plan_again(request: HttpRequest, operation_id: UUID, again: Again) -> OperationDetail:
    """Plan a new operation over the part that failed again, or that was left alone."""
    _need_right_of(request, again.verb)
    found = wanted(request, operation_id)
    chosen = selector.again(found, Show(again.part))
    successor = actions.plan_chosen(
        chosen,
        scope_of(request.user),
        verb=again.verb,
        actor=actor_of(request),
        query=with_cause_id(found.query),
        retry_of=found.pk,
    )
    return _shown(request, successor)


@acting(
    router,
    "PUT",
    f"{ONE}/recipe",
    *(Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    answer=OperationDetail,
)
def set_recipe(request: HttpRequest, operation_id: UUID, asked: SetRecipe) -> OperationDetail:
    """Say what a planned edit changes; then try it."""
    found = wanted(request, operation_id)
    refuse_telling(request, found, asked.recipe)
    actions.set_recipe(found.pk, asked.recipe, version=asked.version)
    return _shown(request, operation_id)


@operation(
    router,
    "POST",
    f"{ONE}/trials",
    *(Right.VIEW, Right.OPERATE, Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD),
    answer=OperationDetail,
)
def try_recipe(request: HttpRequest, operation_id: UUID) -> OperationDetail:
    """Try the recipe on as many messages as a request has time for; until `is_tried`."""
    operation_trials.go_on_trying(wanted(request, operation_id).pk)
    return _shown(request, operation_id)


def _planned(request: HttpRequest, plan: Plan) -> UUID:
    """Raises BadInputError, BadFilterError, NothingChosenError."""
    if (plan.failures is None) == (plan.filter is None):
        raise BadInputError(EITHER)
    scope, actor = scope_of(request.user), actor_of(request)
    if plan.failures is not None:
        chosen = {one.id: one.version for one in plan.failures}
        return actions.plan_chosen(chosen, scope, verb=plan.verb, actor=actor)
    query = QueryDict(mutable=True)
    query.update(cast("dict[str, str]", plan.filter))
    form = filter_form(query, may_see=has(request.user, Right.VIEW_PAYLOAD))
    form.refuse_unreadable()
    matching = failures.matching(form.wanted(), scope)
    return actions.plan_matching(matching, verb=plan.verb, actor=actor, query=form.query())


def _options(start: Start) -> Options:
    """Raises BadInputError."""
    given = start.model_dump(exclude={"version", "stop"})
    try:
        return Options(**given, stop=StopRule.read(start.stop))
    except ValueError as refusal:
        raise BadInputError(f"stop: please {refusal}.") from refusal


def _need_right_of(request: HttpRequest, verb: str) -> None:
    """An edit needs the right to change payloads too. Raises PermissionDenied."""
    if verb == EDIT.action:
        require(request.user, Right.EDIT_PAYLOAD)


def _shown(request: HttpRequest, operation_id: UUID) -> OperationDetail:
    """Raises Http404."""
    found = wanted(request, operation_id)
    sees, edits = (has(request.user, one) for one in (Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD))
    progress = selector.progress(found)
    return OperationDetail.shown(found, progress, sees_payloads=sees, sees_recipe=sees or edits)
