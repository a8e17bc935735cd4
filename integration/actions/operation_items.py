"""The work of an operation on its messages, chunk after chunk.

A chunk is one commit of failures, their history and their items. A message is never done twice:
its item gets its outcome in the transaction that changes the failure, and only items without an
outcome are taken. What has moved on is skipped with the reason, never forced.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import F

from integration.actions import dead_letters, failures
from integration.actions.errors import STATE_WORDS
from integration.actions.transaction import short_transaction
from integration.models import MessageError, Operation
from integration.policy import moves
from integration.policy.failure import Failure
from integration.policy.moves import Move
from integration.policy.operations import ItemOutcome, verdict
from integration.policy.states import CLOSED, ErrorState
from integration.recipe_rules import (
    Schemas,
    away_in,
    place_of,
    schemas_of,
    subject_of,
)
from integration.recipe_use import Changed, Rules, Same, use
from integration.recipes import Misfit, compile_recipe
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import key_order
from integration.store import operations as store
from integration.store.operations import Content, Ended, Item, Locked, Orders, Tenure
from integration.store.sessions import execute
from integration.store.starts import leave_request

FIRST_IS_OUT: Final = "first"
WHY_CHARACTERS: Final = 500


class OperationStep(StrEnum):
    """The moments of a runner between two effects; crash tests end its process at each."""

    TAKEN = "TAKEN"  # the epoch is raised, nothing is done yet
    LOCKED = "LOCKED"  # the failures of a chunk are locked
    CHANGED = "CHANGED"  # failures and history are written, not committed
    NOTED = "NOTED"  # the items have their outcomes, not committed
    COMMITTED = "COMMITTED"
    ASKED = "ASKED"  # the queues were asked to run
    LEFT = "LEFT"  # given back


Observe = Callable[[OperationStep], None]


def _silent(_: OperationStep) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class Job:
    """The work on each message; fixed for as long as a runner holds the operation.

    But for `schemas`, which those of the next chunk were written by, and `scope`, that of whoever
    let it run last.
    """

    operation: Operation
    rules: Rules = field(default_factory=Rules)
    observe: Observe = _silent
    schemas: Schemas = field(default_factory=dict)
    scope: Scope = EVERYTHING

    @property
    def move(self) -> Move:
        return moves.VERBS[self.operation.verb]

    @property
    def releases(self) -> bool:
        edits_and_releases = self.move is moves.EDIT and self.operation.release_after_edit
        return self.move is moves.RELEASE or edits_and_releases


@dataclass(frozen=True, slots=True)
class Chunk:
    """The result of one commit. `is_ours`: there is more, and the runner may go on at this rate."""

    handled: int = 0
    done: int = 0
    from_place: int = 0
    is_ours: bool = True
    rate: int | None = None
    queues: frozenset[int] = frozenset()


def work(job: Job, tenure: Tenure, most: int, *, from_place: int, patient: bool = True) -> Chunk:
    """Carry out the verb on the next `most` messages, in one short transaction.

    Rows that somebody holds are left for a later chunk while `patient`, and skipped otherwise.
    Without the registry that an edit needs all is left as it is, and the operation paused unless
    `patient`. Raises RowBusyError when the operation itself is held for seconds.
    """
    if job.move in {moves.EDIT, moves.SEND_BACK}:
        most = store.at_once(tenure.operation, from_place, most)
    if job.move is moves.EDIT:
        schemas = _schemas_ahead(tenure, most, from_place)
        if (away := away_in(schemas)) is not None:
            return _without(away, tenure, from_place, patient=patient)
        job = replace(job, schemas=schemas)
    return _chunk(job, tenure, most, from_place=from_place, patient=patient)


def _schemas_ahead(tenure: Tenure, most: int, from_place: int) -> Schemas:
    """Find the schemas of the next chunk before any row of it is locked: a registry takes time."""
    items = store.next_items(tenure, from_place, most)
    return schemas_of(store.beginnings([item.error for item in items]))


def _without(away: Failure, tenure: Tenure, from_place: int, *, patient: bool) -> Chunk:
    """Leave all as it is while a registry does not answer; let people know in the end."""
    with short_transaction():
        orders = store.fence(tenure, works=False)
        if orders is not None and not patient:
            store.step_back(tenure, f"{away.code}: {away.text}"[:WHY_CHARACTERS])
    if orders is None:
        return Chunk(is_ours=False)
    return Chunk(from_place=from_place, is_ours=patient, rate=orders.rate)


def _chunk(job: Job, tenure: Tenure, most: int, *, from_place: int, patient: bool) -> Chunk:
    with short_transaction():
        orders = store.fence(tenure, works=True)
        if orders is None:
            return Chunk(is_ours=False)
        limit = 1 if orders.first_only else most
        # One more tells whether these are the last ones: after a first one none may wait then.
        ahead = store.next_items(tenure, from_place, limit + 1)
        items = ahead[:limit]
        job = replace(job, scope=_scope(orders))
        ended, queues = _carried_out(job, items, patient=patient)
        is_over = len(ahead) == len(items) == len(ended)
        if ended:
            store.write_outcomes(tenure, items, ended)
        job.observe(OperationStep.NOTED)
        done = sum(item.outcome is ItemOutcome.DONE for item in ended)
        if is_over:
            store.end(tenure)
        elif orders.first_only and done:
            store.step_back(tenure, FIRST_IS_OUT)
    job.observe(OperationStep.COMMITTED)
    for queue_id in sorted(queues):
        leave_request(queue_id)
    job.observe(OperationStep.ASKED)
    left = {item.place for item in items} - {end.place for end in ended}
    return Chunk(
        handled=len(ended),
        done=done,
        from_place=min(left, default=items[-1].place + 1 if items else from_place),
        is_ours=not is_over and not (orders.first_only and done),
        rate=orders.rate,
        queues=queues,
    )


def _scope(orders: Orders) -> Scope:
    return EVERYTHING if orders.systems is None else Scope(frozenset(orders.systems))


def _carried_out(
    job: Job, items: Sequence[Item], *, patient: bool
) -> tuple[list[Ended], frozenset[int]]:
    locked = store.lock([item.error for item in items])
    job.observe(OperationStep.LOCKED)
    ended = _absent([item for item in items if item.error not in locked], patient=patient)
    late_allowed = job.operation.late or not job.releases
    fit: list[Item] = []
    for item in items:
        if (row := locked.get(item.error)) is None:
            continue
        outcome = verdict(
            row.seen, item.version, expected=job.move.expected, late_allowed=late_allowed
        )
        if outcome is ItemOutcome.DONE:
            fit.append(item)
        else:
            why = "" if outcome is ItemOutcome.LATE else f"It is {STATE_WORDS[row.seen.state]}."
            ended.append(Ended(item.place, outcome, text=why))
    if fit:
        ended += _moved(job, fit, locked)
    job.observe(OperationStep.CHANGED)
    done = {item.place for item in ended if item.outcome is ItemOutcome.DONE}
    return ended, frozenset(locked[i.error].queue_id for i in fit if i.place in done)


def _absent(missing: Sequence[Item], *, patient: bool) -> list[Ended]:
    """Those whose row could not be locked: gone, or in somebody's hands."""
    there = store.existing([item.error for item in missing]) if missing else frozenset()
    ended = [Ended(i.place, ItemOutcome.GONE) for i in missing if i.error not in there]
    if not patient:
        ended += [Ended(i.place, ItemOutcome.IN_WORK) for i in missing if i.error in there]
    return ended


def _moved(job: Job, fit: Sequence[Item], locked: Mapping[UUID, Locked]) -> list[Ended]:
    if job.move is moves.EDIT:
        return _edited(job, fit, locked)
    if job.move is moves.SEND_BACK:
        return _sent_back(job, fit, locked)
    _change(job, job.move, {item.error: locked[item.error] for item in fit})
    return [Ended(item.place, ItemOutcome.DONE, item.version + 1) for item in fit]


def _edited(job: Job, fit: Sequence[Item], locked: Mapping[UUID, Locked]) -> list[Ended]:
    """Change what the recipe fits; one already as wanted is only released, if that was asked."""
    recipe, ended = compile_recipe(job.operation.recipe), []
    contents = store.contents([item.error for item in fit])
    payloads: dict[UUID, bytes] = {}
    to_release: dict[UUID, Locked] = {}
    for item in _with_schemas(job, fit, contents):
        match use(recipe, subject_of(contents[item.error], job.schemas), job.rules):
            case Misfit(why):
                ended.append(Ended(item.place, ItemOutcome.INVALID, text=why))
            case Same() if not job.releases:
                ended.append(Ended(item.place, ItemOutcome.UNCHANGED))
            case Same():
                to_release[item.error] = locked[item.error]
                ended.append(Ended(item.place, ItemOutcome.DONE, item.version + 1))
            case Changed(record):
                payloads[item.error] = record
                to_release[item.error] = locked[item.error]
                version = item.version + 1 + job.releases
                ended.append(Ended(item.place, ItemOutcome.DONE, version))
    if payloads:
        store.edit(payloads, job.operation.actor)
        before = [(id_, ErrorState.HOLD, contents[id_].record) for id_ in payloads]
        _note(job, moves.EDIT, before)
    if job.releases and to_release:
        _change(job, moves.RELEASE, to_release)
    return ended


def _sent_back(job: Job, fit: Sequence[Item], locked: Mapping[UUID, Locked]) -> list[Ended]:
    """Write to the outbox what may go, and close it in the same commit."""
    kept = dead_letters.send_back_together([item.error for item in fit], job.scope)
    gone = {item.error: locked[item.error] for item in fit if item.error not in kept}
    if gone:
        _change(job, moves.SEND_BACK, gone)
    return [
        Ended(item.place, ItemOutcome.REFUSED, text=kept[item.error])
        if item.error in kept
        else Ended(item.place, ItemOutcome.DONE, item.version + 1)
        for item in fit
    ]


def _with_schemas(
    job: Job, fit: Sequence[Item], contents: Mapping[UUID, Content]
) -> Sequence[Item]:
    """Leave to a later chunk what was written by a schema that was not looked for."""
    places = {id_: place_of(one.queue_id, one.record) for id_, one in contents.items()}
    return [item for item in fit if places[item.error] in {None, *job.schemas}]


def _change(job: Job, move: Move, fit: Mapping[UUID, Locked]) -> None:
    """Write the state that a verb leads to and the history; markers not yet sent are taken back."""
    for late in (False, True):
        ids = [id_ for id_, row in fit.items() if row.seen.late is late]
        if ids:
            more = failures.released(late=late) if move is moves.RELEASE else failures.COLUMNS[move]
            values: dict[str, object] = {"state": move.target, "version": F("version") + 1, **more}
            # The rows are locked and their states were looked at: nothing else can match.
            MessageError.objects.filter(pk__in=ids).update(**values)
    _note(job, move, [(id_, row.seen.state, None) for id_, row in fit.items()])
    if move.target in CLOSED:
        key_order.wake(execute, list(fit))
    with_marker = [id_ for id_, row in fit.items() if row.carrier == "topic"]
    if with_marker:
        failures.cancel_retry_markers(with_marker)


def _note(job: Job, move: Move, rows: Sequence[tuple[UUID, ErrorState, bytes | None]]) -> None:
    by = job.operation
    decision = (by.actor, move.action, move.target.value, by.reason, by.pk)
    store.write_changes(decision, [(id_, state.value, payload) for id_, state, payload in rows])
