"""One chunk of a bulk operation: its failures, their history and its items in one commit.

A message is never done twice: its item gets its outcome in the transaction that changes the
failure, and only items without an outcome are taken. What has moved on is skipped with the
reason, never forced.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import F

from integration.actions import errors
from integration.actions.errors import Values
from integration.actions.problems import STATE_WORDS
from integration.actions.transaction import short_transaction
from integration.models import MessageError, Operation
from integration.policy import moves
from integration.policy.moves import Move
from integration.policy.operations import ItemOutcome, verdict
from integration.policy.states import ErrorState
from integration.recipe_rules import subject_of
from integration.recipe_use import Changed, Rules, Same, use
from integration.recipes import Misfit, compile_recipe
from integration.store import operations as store
from integration.store.operations import Ended, Item, Locked, Tenure
from integration.store.starts import leave_request

FIRST_IS_OUT: Final = "first"


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
    """What is to be done with each message; fixed for as long as a runner holds the operation."""

    operation: Operation
    rules: Rules = field(default_factory=Rules)
    observe: Observe = _silent

    @property
    def move(self) -> Move:
        return moves.VERBS[self.operation.verb]

    @property
    def releases(self) -> bool:
        edits_and_releases = self.move is moves.EDIT and self.operation.release_after_edit
        return self.move is moves.RELEASE or edits_and_releases

    @property
    def late_allowed(self) -> bool:
        return self.operation.late or not self.releases


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one commit did. `is_ours`: there is more, and the runner may go on, at this rate."""

    handled: int = 0
    done: int = 0
    from_place: int = 0
    is_ours: bool = True
    rate: int | None = None
    queues: frozenset[int] = frozenset()


def work(job: Job, tenure: Tenure, most: int, *, from_place: int, patient: bool = True) -> Chunk:
    """Carry out the verb on the next `most` messages, in one short transaction.

    Rows that somebody holds are left for a later chunk while `patient`, and skipped otherwise.
    Raises RowBusyError when the operation itself is held for seconds.
    """
    with short_transaction():
        orders = store.fence(tenure, works=True)
        if orders is None:
            return Chunk(is_ours=False)
        limit = 1 if orders.first_only else most
        items = store.next_items(tenure, from_place, limit)
        ended, queues = _carried_out(job, items, patient=patient)
        is_over = len(items) < limit and len(ended) == len(items)
        if ended:
            store.write_outcomes(tenure, items, ended)
        job.observe(OperationStep.NOTED)
        done = sum(one.outcome is ItemOutcome.DONE for one in ended)
        if is_over:
            store.end(tenure)
        elif orders.first_only and done:
            store.step_back(tenure, FIRST_IS_OUT)
    job.observe(OperationStep.COMMITTED)
    for queue_id in sorted(queues):
        leave_request(queue_id)
    job.observe(OperationStep.ASKED)
    left = {item.place for item in items} - {one.place for one in ended}
    return Chunk(
        handled=len(ended),
        done=done,
        from_place=min(left, default=items[-1].place + 1 if items else from_place),
        is_ours=not is_over and not (orders.first_only and done),
        rate=orders.rate,
        queues=queues,
    )


def _carried_out(
    job: Job, items: Sequence[Item], *, patient: bool
) -> tuple[list[Ended], frozenset[int]]:
    locked = store.lock([item.error for item in items])
    job.observe(OperationStep.LOCKED)
    ended = _absent(items, locked, patient=patient)
    fit: list[Item] = []
    for item in items:
        if (row := locked.get(item.error)) is None:
            continue
        outcome = verdict(
            row.seen, item.version, expected=job.move.expected, late_allowed=job.late_allowed
        )
        if outcome is ItemOutcome.DONE:
            fit.append(item)
        else:
            ended.append(Ended(item.place, outcome, text=_why(outcome, row.seen.state)))
    if fit:
        ended += _moved(job, fit, locked)
    job.observe(OperationStep.CHANGED)
    done = {one.place for one in ended if one.outcome is ItemOutcome.DONE}
    return ended, frozenset(locked[i.error].queue_id for i in fit if i.place in done)


def _absent(items: Sequence[Item], locked: dict[UUID, Locked], *, patient: bool) -> list[Ended]:
    """Those whose row could not be locked: gone, or in somebody's hands."""
    missing = [item for item in items if item.error not in locked]
    if not missing:
        return []
    there = store.existing([item.error for item in missing])
    ended = [Ended(i.place, ItemOutcome.GONE) for i in missing if i.error not in there]
    if not patient:
        ended += [Ended(i.place, ItemOutcome.IN_WORK) for i in missing if i.error in there]
    return ended


def _moved(job: Job, fit: Sequence[Item], locked: dict[UUID, Locked]) -> list[Ended]:
    if job.move is moves.EDIT:
        return _edited(job, fit, locked)
    if job.move is moves.RELEASE:
        _release(job, fit, locked)
    else:
        _write(job.move, [item.error for item in fit], PLAIN[job.move.action]())
        _note(job, job.move, [(i.error, locked[i.error].seen.state, None) for i in fit])
        _cancel_tickets(fit, locked)
    return [Ended(item.place, ItemOutcome.DONE, item.version + 1) for item in fit]


def _release(job: Job, fit: Sequence[Item], locked: dict[UUID, Locked]) -> None:
    for late in (False, True):
        ids = [item.error for item in fit if locked[item.error].seen.late is late]
        if ids:
            more = errors.released(late=late, apply_as_newest=False)
            _write(moves.RELEASE, ids, more)
    _note(job, moves.RELEASE, [(item.error, ErrorState.HOLD, None) for item in fit])
    _cancel_tickets(fit, locked)


def _edited(job: Job, fit: Sequence[Item], locked: dict[UUID, Locked]) -> list[Ended]:
    """Change what the recipe fits; one already as wanted is only released, if that was asked."""
    recipe, ended = compile_recipe(job.operation.recipe), []
    found = store.contents([item.error for item in fit])
    payloads: dict[UUID, bytes] = {}
    to_release: list[Item] = []
    for item in fit:
        match use(recipe, subject_of(found[item.error]), job.rules):
            case Misfit(why):
                ended.append(Ended(item.place, ItemOutcome.INVALID, text=why))
            case Same() if not job.releases:
                ended.append(Ended(item.place, ItemOutcome.UNCHANGED))
            case Same():
                to_release.append(item)
                ended.append(Ended(item.place, ItemOutcome.DONE, item.version + 1))
            case Changed(record):
                payloads[item.error] = record
                to_release.append(item)
                version = item.version + 1 + job.releases
                ended.append(Ended(item.place, ItemOutcome.DONE, version))
    if payloads:
        store.edit(payloads, job.operation.actor)
        before = [(id_, ErrorState.HOLD, found[id_].record) for id_ in payloads]
        _note(job, moves.EDIT, before)
    if job.releases and to_release:
        _release(job, to_release, locked)
    return ended


def _write(move: Move, ids: Sequence[UUID], more: Values) -> None:
    values: dict[str, object] = {"state": move.target, "version": F("version") + 1, **more}
    # The rows are locked and their states were looked at: nothing else can match.
    MessageError.objects.filter(pk__in=ids).update(**values)


def _note(job: Job, move: Move, rows: Sequence[tuple[UUID, ErrorState, bytes | None]]) -> None:
    operation = job.operation
    told = (operation.actor, move.action, move.target.value, operation.reason, operation.pk)
    store.write_changes(told, [(id_, state.value, payload) for id_, state, payload in rows])


def _cancel_tickets(fit: Sequence[Item], locked: dict[UUID, Locked]) -> None:
    ticketed = [item.error for item in fit if locked[item.error].carrier == "topic"]
    if ticketed:
        errors.cancel_tickets(ticketed)


def _why(outcome: ItemOutcome, state: ErrorState) -> str:
    if outcome is ItemOutcome.LATE:
        return ""
    return f"It is {STATE_WORDS[state]}."


PLAIN: Final[dict[str, Callable[[], Values]]] = {
    moves.HOLD.action: errors.held,
    moves.DELETE.action: errors.deleted,
    moves.RESTORE.action: errors.restored,
}
