"""Decisions about operations: each is a compare-and-set with its row of audit.

An operation carries out one verb on many failures: `operation_trials` tries an edit on them first,
`operation_items` works on them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.db import transaction
from django.db.models import F, Model, QuerySet

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.errors import (
    BadRecipeError,
    NothingChosenError,
    OperationMovedError,
    ReasonMissingError,
    RecipeUntriedError,
)
from integration.actions.reasons import cut
from integration.actions.transaction import short_transaction
from integration.models import MessageError, Operation, Queue
from integration.policy import moves
from integration.policy.operations import NEVER, OPERATION_MOVES, StopRule
from integration.policy.states import OperationState
from integration.recipes import Unreadable, compile_written
from integration.selectors.failures.failures import FailureFilter, matching
from integration.selectors.scope import EVERYTHING, Scope, visible_operations
from integration.store import operations as store
from integration.store.sessions import database_now

# One operation takes at most so many messages: its page and its report stay quick.
MOST_ITEMS: Final = 100_000
# The verbs that need a reason, in words.
NEEDS_REASON: Final = {
    moves.DELETE.action: "delete messages",
    moves.EDIT.action: "edit many messages",
}
# Times are the audit row's own, and actor and reason have columns of their own there.
NOT_AUDITED: Final = frozenset(
    {"started_at", "ended_at", "reason", "actor", "why_paused", "stop_from", "stop_base", "systems"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The way to carry out a planned operation; `rate` in messages a second, None = any."""

    reason: str = ""
    rate: int | None = None
    first_only: bool = False
    late: bool = False
    release_after_edit: bool = False
    stop: StopRule = NEVER


def plan_chosen(
    versions: Mapping[UUID, int],
    scope: Scope = EVERYTHING,
    *,
    verb: str,
    actor: str,
    query: str = "",
    retry_of: UUID | None = None,
) -> UUID:
    """Freeze these failures, at the versions they were seen at, but for those beyond the most.

    Failures of systems that the person may not know of are not there for them: left out. `query`
    is the filter they were chosen by. Raises NothingChosenError.
    """
    queues = Queue.objects.filter(scope.within("system")).values_list("pk", flat=True)
    known = None if scope.is_whole else list(queues)
    with transaction.atomic():
        operation = _created(verb, actor, query, retry_of)
        chosen = dict(list(versions.items())[:MOST_ITEMS])
        last_first = verb == moves.DELETE.action
        store.freeze_chosen(operation.pk, chosen, known, last_first=last_first)
        operation.is_capped = len(versions) > MOST_ITEMS
        return _summed_up(operation)


def plan_matching(
    failures: QuerySet[MessageError], *, verb: str, actor: str, query: str = ""
) -> UUID:
    """Freeze what the query finds now, the oldest hundred thousand. Raises NothingChosenError.

    The query is limited to the person's scope already.
    """
    with transaction.atomic():
        operation = _created(verb, actor, query)
        last_first = verb == moves.DELETE.action
        count = store.freeze_matching(operation.pk, failures, MOST_ITEMS, last_first=last_first)
        beyond = failures.order_by()[: MOST_ITEMS + 1]
        operation.is_capped = count == MOST_ITEMS and beyond.count() > MOST_ITEMS
        return _summed_up(operation)


def start(
    operation_id: UUID,
    options: Options,
    *,
    version: int,
    actor: str,
    scope: Scope = EVERYTHING,
) -> None:
    """Let a planned operation run, as the person saw it; within the person's scope.

    Raises OperationMovedError, ReasonMissingError, RecipeUntriedError.
    """
    with short_transaction():
        operation = _locked(operation_id, version, OperationState.PLANNED)
        if operation.items.count() < operation.total:
            # What is left is not what the person saw.
            raise OperationMovedError(None)
        if operation.verb in NEEDS_REASON and not options.reason.strip():
            raise ReasonMissingError(action=NEEDS_REASON[operation.verb])
        if operation.verb == moves.EDIT.action and not operation.is_tried:
            raise RecipeUntriedError
        values = {
            "actor": actor,
            "reason": cut(options.reason),
            "rate": options.rate,
            "first_only": options.first_only and operation.total > 1,
            "late": options.late,
            "release_after_edit": options.release_after_edit,
            "stop_after": options.stop.after,
            "stop_share": options.stop.share,
            "stop_from": database_now(),
            "stop_base": 0,
            "systems": _systems(scope),
            "started_at": database_now(),
        }
        _move(operation, OperationState.RUNNING, values, Author(actor, options.reason))


def release_held(row: Model, filters: FailureFilter, actor: str, scope: Scope) -> UUID:
    """Start one operation that releases what the filter finds within the scope; returns its id.

    It was put on hold while `row` was off. While such an operation of this row runs or rests, it
    is that one: a second click releases nothing twice. Raises NothingChosenError, RowBusyError.
    """
    chosen = {"state": filters.state, "system": filters.system, "code": filters.code}
    chosen |= {"interface": filters.interface}
    query = urlencode({name: value for name, value in chosen.items() if value})
    verb = moves.RELEASE.action
    with short_transaction():
        # One click after the other, so that the second finds the operation of the first.
        type(row)._default_manager.select_for_update(no_key=True).get(pk=row.pk)
        under_way = Operation.objects.filter(
            visible_operations(scope),
            verb=verb,
            query=query,
            state__in=(OperationState.RUNNING, OperationState.PAUSED),
        )
        earlier = under_way.order_by("-created_at").first()
        if earlier is not None:
            return earlier.pk
        operation = plan_matching(matching(filters, scope), verb=verb, actor=actor, query=query)
        options = Options(reason=f"{row} was switched on again.")
        start(operation, options, version=1, actor=actor, scope=scope)
        return operation


def pause(operation_id: UUID, *, actor: str, reason: str = "") -> None:
    """Let a running operation rest after its chunk. Raises OperationMovedError.

    It needs no version: whatever else was changed, it stops.
    """
    with short_transaction():
        operation = _locked(operation_id)
        _move(operation, OperationState.PAUSED, {"why_paused": "person"}, Author(actor, reason))


def resume(
    operation_id: UUID,
    *,
    version: int,
    actor: str,
    one_first: bool = False,
    scope: Scope = EVERYTHING,
) -> None:
    """Go on, within this person's scope; with `one_first` only up to the next message.

    Raises OperationMovedError.
    """
    with short_transaction():
        operation = _locked(operation_id, version, OperationState.PAUSED)
        values: dict[str, object] = {"why_paused": "", "first_only": one_first}
        # What failed before is known to whoever resumes it: failures are counted anew.
        values |= {"stop_from": database_now(), "stop_base": operation.done}
        values["systems"] = _systems(scope)
        _move(operation, OperationState.RUNNING, values, Author(actor))


def cancel(operation_id: UUID, *, actor: str, reason: str = "") -> None:
    """End it: what is done stays done, the rest is left as it is. Raises OperationMovedError."""
    with short_transaction():
        values = {"ended_at": database_now(), "why_paused": "", "first_only": False}
        author = Author(actor, reason)
        _move(_locked(operation_id), OperationState.CANCELLED, values, author)


def change_rate(operation_id: UUID, rate: int | None, *, version: int, actor: str) -> None:
    """Set how many messages a second are taken, also while it runs. Raises OperationMovedError."""
    with short_transaction():
        operation = _locked(operation_id, version)
        if not OPERATION_MOVES[OperationState(operation.state)]:
            raise OperationMovedError(operation)
        _set(operation, {"rate": rate})
        author = Author(actor)
        configuration.record(operation, {"rate": operation.rate}, {"rate": rate}, author)


def set_recipe(operation_id: UUID, recipe: str, *, version: int) -> None:
    """Store what a planned edit is to change; an earlier dry run is forgotten.

    Raises BadRecipeError, OperationMovedError.
    """
    try:
        compile_written(recipe)
    except Unreadable as refusal:
        raise BadRecipeError(str(refusal)) from refusal
    with short_transaction():
        operation = _locked(operation_id, version, OperationState.PLANNED)
        if operation.verb != moves.EDIT.action:
            raise OperationMovedError(operation)
        if operation.recipe != recipe:
            _set(operation, {"recipe": recipe, "trial": None})


def _systems(scope: Scope) -> list[int] | None:
    return None if scope.systems is None else sorted(scope.systems)


def _created(verb: str, actor: str, query: str, retry_of: UUID | None = None) -> Operation:
    return Operation.objects.create(
        verb=moves.VERBS[verb].action,
        query=query,
        actor=actor,
        retry_of_id=retry_of,
        state=OperationState.PLANNED,
        created_at=database_now(),
    )


def _summed_up(operation: Operation) -> UUID:
    total, queues = store.sum_up(operation.pk)
    if total == 0:
        # Raised inside the transaction: no empty operation stays behind.
        raise NothingChosenError
    label = Operation.Verb(operation.verb).label
    operation.title = f"{label} {total:,} message{'' if total == 1 else 's'}"
    if len(queues) == 1:
        operation.title += f" of {Queue.objects.get(pk=queues[0]).name}"
    operation.save(update_fields=["title", "is_capped"])
    return operation.pk


def _locked(
    operation_id: UUID, version: int | None = None, state: OperationState | None = None
) -> Operation:
    """The operation, locked, if it still is what the person saw: in this version, in this state.

    The runner holds the row for one short chunk at most. Raises RowBusyError as well.
    """
    operation = Operation.objects.select_for_update().filter(pk=operation_id).first()
    if operation is None:
        raise OperationMovedError(None)
    if version not in {None, operation.version} or state not in {None, operation.state}:
        raise OperationMovedError(operation)
    return operation


def _move(
    operation: Operation, target: OperationState, values: Mapping[str, object], author: Author
) -> None:
    if target not in OPERATION_MOVES[OperationState(operation.state)]:
        raise OperationMovedError(operation)
    _set(operation, {**values, "state": target, "asked_at": None})
    after = {name: value for name, value in values.items() if name not in NOT_AUDITED}
    before = {name: getattr(operation, name) for name in after}
    configuration.record(
        operation,
        {"state": operation.state, **before},
        {"state": target.value, **after},
        author,
    )


def _set(operation: Operation, values: Mapping[str, object]) -> None:
    Operation.objects.filter(pk=operation.pk).update(**values, version=F("version") + 1)
