"""What people decide about bulk operations: each act is a compare-and-set with its row of audit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid4

from django.db import transaction
from django.db.models import F, QuerySet

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.actions.operation_problems import (
    BadRecipeError,
    NothingChosenError,
    OperationMovedError,
    RecipeUntriedError,
)
from integration.actions.problems import ReasonMissingError
from integration.actions.transaction import short_transaction
from integration.clock import database_now
from integration.models import MessageError, Operation, Queue
from integration.policy import moves
from integration.policy.operations import NEVER, OPERATION_MOVES, StopRule
from integration.policy.states import OperationState
from integration.recipes import Unreadable, compile_recipe
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import operations as store

# One operation takes at most so many messages: its page and its report stay quick.
MOST_ITEMS: Final = 100_000
NEEDS_REASON: Final = frozenset({moves.DELETE.action, moves.EDIT.action})
WHY_REASON: Final = {
    moves.DELETE.action: "delete messages",
    moves.EDIT.action: "edit many messages",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """What is to be done with a selection, by whom, and how it was chosen."""

    verb: str
    actor: str
    query: str = ""
    retry_of: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a planned operation is to be carried out; `rate` in messages a second, None = any."""

    reason: str = ""
    rate: int | None = None
    first_only: bool = False
    late: bool = False
    release_after_edit: bool = False
    stop: StopRule = NEVER


def plan_chosen(
    versions: Mapping[UUID, int], asked: OperationRequest, scope: Scope = EVERYTHING
) -> UUID:
    """Freeze these failures, at the versions they were seen at. Raises NothingChosenError.

    Failures of systems that the person may not know of are not there for them: left out.
    """
    known = None if scope.is_whole else _queues_in(scope)
    with transaction.atomic():
        operation = _planned(asked)
        store.freeze_chosen(operation.pk, dict(list(versions.items())[:MOST_ITEMS]), known)
        return _summed_up(operation)


def plan_matching(found: QuerySet[MessageError], asked: OperationRequest) -> UUID:
    """Freeze what the query finds now, the oldest hundred thousand. Raises NothingChosenError.

    The query is limited to the person's scope already.
    """
    with transaction.atomic():
        operation = _planned(asked)
        count = store.freeze_matching(operation.pk, found, MOST_ITEMS)
        if count == MOST_ITEMS and found.order_by()[: MOST_ITEMS + 1].count() > MOST_ITEMS:
            Operation.objects.filter(pk=operation.pk).update(is_capped=True)
        return _summed_up(operation)


def start(operation_id: UUID, options: Options, *, version: int, actor: str) -> None:
    """Let a planned operation run, as the person saw it.

    Raises OperationMovedError, ReasonMissingError, RecipeUntriedError.
    """
    with short_transaction():
        operation = _locked(operation_id, version, OperationState.RUNNING)
        if operation.state != OperationState.PLANNED:
            raise OperationMovedError(OperationState(operation.state))
        if operation.verb in NEEDS_REASON and not options.reason.strip():
            raise ReasonMissingError(action=WHY_REASON[operation.verb])
        if operation.verb == moves.EDIT.action and not is_tried(operation):
            raise RecipeUntriedError
        values = {
            "actor": actor,
            "reason": options.reason.strip(),
            "rate": options.rate,
            "first_only": options.first_only and operation.total > 1,
            "late": options.late,
            "release_after_edit": options.release_after_edit,
            "stop_after": options.stop.after,
            "stop_share": options.stop.share,
            "stop_from": database_now(),
            "stop_base": 0,
            "started_at": database_now(),
        }
        _move(operation, OperationState.RUNNING, values, Author(actor, options.reason))


def pause(operation_id: UUID, *, actor: str, reason: str = "") -> None:
    """Let a running operation rest after its chunk. Raises OperationMovedError.

    It needs no version: whatever else was changed, it stops.
    """
    with short_transaction():
        operation = _locked(operation_id, None, OperationState.PAUSED)
        _move(operation, OperationState.PAUSED, {"why_paused": "person"}, Author(actor, reason))


def resume(
    operation_id: UUID, *, version: int, actor: str, one_first: bool = False, reason: str = ""
) -> None:
    """Go on; with `one_first` only up to the next message. Raises OperationMovedError."""
    with short_transaction():
        operation = _locked(operation_id, version, OperationState.RUNNING)
        if operation.state != OperationState.PAUSED:
            raise OperationMovedError(OperationState(operation.state))
        values: dict[str, object] = {"why_paused": "", "first_only": one_first}
        # What failed before is known to whoever resumes it: failures are counted anew.
        values |= {"stop_from": database_now(), "stop_base": operation.done}
        _move(operation, OperationState.RUNNING, values, Author(actor, reason))


def cancel(operation_id: UUID, *, actor: str, reason: str = "") -> None:
    """End it: what is done stays done, the rest is left as it is. Raises OperationMovedError."""
    with short_transaction():
        operation = _locked(operation_id, None, OperationState.CANCELLED)
        values = {"ended_at": database_now(), "why_paused": "", "first_only": False}
        _move(operation, OperationState.CANCELLED, values, Author(actor, reason))


def change_rate(operation_id: UUID, rate: int | None, *, version: int, actor: str) -> None:
    """Set how many messages a second are taken, also while it runs. Raises OperationMovedError."""
    with short_transaction():
        operation = _locked(operation_id, version, None)
        if not OPERATION_MOVES[OperationState(operation.state)]:
            raise OperationMovedError(OperationState(operation.state))
        _set(operation, {"rate": rate})
        author = Author(actor)
        configuration.record(operation, {"rate": operation.rate}, {"rate": rate}, author)


def set_recipe(operation_id: UUID, recipe: str, *, version: int) -> None:
    """Store what a planned edit is to change; an earlier dry run is forgotten.

    Raises BadRecipeError, OperationMovedError.
    """
    try:
        compile_recipe(recipe)
    except Unreadable as refusal:
        raise BadRecipeError(str(refusal)) from refusal
    with short_transaction():
        operation = _locked(operation_id, version, None)
        is_open = operation.state == OperationState.PLANNED
        if not is_open or operation.verb != moves.EDIT.action:
            raise OperationMovedError(OperationState(operation.state))
        if operation.recipe != recipe:
            _set(operation, {"recipe": recipe, "trial": None})


def is_tried(operation: Operation) -> bool:
    """Whether the dry run of an edit came to its end."""
    return operation.trial is not None and operation.trial.get("at", 0) >= operation.total


def _planned(asked: OperationRequest) -> Operation:
    assert asked.verb in moves.VERBS  # noqa: S101 - the caller offers no other verb
    return Operation.objects.create(
        pk=uuid4(),
        verb=asked.verb,
        title="",
        query=asked.query,
        actor=asked.actor,
        retry_of_id=asked.retry_of,
        state=OperationState.PLANNED,
        created_at=database_now(),
    )


def _summed_up(operation: Operation) -> UUID:
    total, queues = store.sum_up(operation.pk)
    if total == 0:
        # Raised inside the transaction: no empty operation stays behind.
        raise NothingChosenError
    label = Operation.Verb(operation.verb).label
    title = f"{label} {total:,} message{'' if total == 1 else 's'}"
    if len(queues) == 1:
        title += f" of {Queue.objects.get(pk=queues[0]).name}"
    Operation.objects.filter(pk=operation.pk).update(title=title)
    return operation.pk


def _queues_in(scope: Scope) -> list[int]:
    return list(Queue.objects.filter(scope.within("system")).values_list("pk", flat=True))


def _locked(operation_id: UUID, version: int | None, target: OperationState | None) -> Operation:
    """The operation, locked, if it still is what the person saw and may become `target`.

    The runner holds the row for one short chunk at most. Raises RowBusyError as well.
    """
    operation = Operation.objects.select_for_update().filter(pk=operation_id).first()
    if operation is None:
        raise OperationMovedError(None)
    state = OperationState(operation.state)
    is_as_seen = version is None or operation.version == version
    if not is_as_seen or (target is not None and target not in OPERATION_MOVES[state]):
        raise OperationMovedError(state)
    return operation


def _move(
    operation: Operation, target: OperationState, values: Mapping[str, object], author: Author
) -> None:
    before = {name: _plain(getattr(operation, name)) for name in values}
    after = {name: _plain(value) for name, value in values.items() if name not in UNTOLD}
    _set(operation, {**values, "state": target, "asked_at": None})
    configuration.record(
        operation,
        {"state": operation.state, **{name: before[name] for name in after}},
        {"state": target.value, **after},
        author,
    )


def _set(operation: Operation, values: Mapping[str, object]) -> None:
    Operation.objects.filter(pk=operation.pk).update(**values, version=F("version") + 1)


def _plain(value: object) -> object:
    return value if isinstance(value, str | int | bool | None) else str(value)


# Times are the audit row's own, and the reason has a column of its own there.
UNTOLD: Final = frozenset(
    {"started_at", "ended_at", "reason", "actor", "why_paused", "stop_from", "stop_base"}
)
