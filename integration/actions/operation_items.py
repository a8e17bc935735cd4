"""The work of an operation on its messages: an edit is tried on all, then chunks are carried out.

A dry run changes every message in memory and stores nothing of it. A chunk is one commit of
failures, their history and their items. A message is never done twice: its item gets its outcome
in the transaction that changes the failure, and only items without an outcome are taken. What has
moved on is skipped with the reason, never forced.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import F

from integration.actions import dead_letters, errors
from integration.actions.problems import STATE_WORDS
from integration.actions.transaction import short_transaction
from integration.models import MessageError, Operation, OperationItem
from integration.policy import moves
from integration.policy.moves import Move
from integration.policy.operations import ItemOutcome, verdict
from integration.policy.states import CLOSED, ErrorState, OperationState
from integration.recipe_rules import rules_now, subject_of
from integration.recipe_use import Changed, Rules, Same, use
from integration.recipes import Misfit, Recipe, compile_recipe
from integration.selectors.scope import EVERYTHING, Scope
from integration.store import key_order
from integration.store import operations as store
from integration.store.operations import Ended, Item, Locked, Tenure
from integration.store.sessions import execute
from integration.store.starts import leave_request

# A request of the dry run takes about so long, and reads so many messages at once.
TRIAL_SECONDS: Final = 4.0
TRIAL_ROWS: Final = 250
SAMPLES: Final = 5
# Reasons beyond these are counted together: a schema may name something else in each message.
MOST_REASONS: Final = 40
OTHERWISE: Final = "Other reasons."
FIRST_IS_OUT: Final = "first"


@dataclass(slots=True)
class Trial:
    """The state of a dry run and what it met; `samples` are the first items that change.

    `absent` are not on hold, or were changed since they were chosen: the operation skips them.
    """

    at: int = 0
    fits: int = 0
    same: int = 0
    absent: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    samples: list[int] = field(default_factory=list)

    @property
    def invalid(self) -> int:
        return sum(self.reasons.values())

    @property
    def ranked(self) -> list[tuple[str, int]]:
        """The reasons, the commonest first."""
        return sorted(self.reasons.items(), key=lambda reason: -reason[1])

    def add(self, place: int, made: Changed | Same | Misfit) -> None:
        match made:
            case Changed():
                self.fits += 1
                if len(self.samples) < SAMPLES:
                    self.samples.append(place)
            case Same():
                self.same += 1
            case Misfit(why):
                is_known = why in self.reasons or len(self.reasons) < MOST_REASONS
                reason = why if is_known else OTHERWISE
                self.reasons[reason] = self.reasons.get(reason, 0) + 1


def trial_of(operation: Operation) -> Trial:
    """The dry run as it is stored with the operation, or a new one."""
    return Trial(**(operation.trial or {}))


def go_on_trying(
    operation_id: UUID,
    *,
    seconds: float = TRIAL_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Trial | None:
    """Try the recipe on the next messages, for so long; None where there is nothing to try."""
    operation = Operation.objects.filter(pk=operation_id, state=OperationState.PLANNED).first()
    if operation is None or not operation.recipe:
        return None
    trial, rules = trial_of(operation), rules_now()
    recipe, until = compile_recipe(operation.recipe), clock() + seconds
    while trial.at < operation.total and clock() < until:
        _try(operation, trial, recipe, rules)
    # A recipe that was changed meanwhile has a dry run of its own.
    same = Operation.objects.filter(pk=operation_id, recipe=operation.recipe)
    same.update(trial=asdict(trial))
    return trial


def _try(operation: Operation, trial: Trial, recipe: Recipe, rules: Rules) -> None:
    until = trial.at + TRIAL_ROWS
    rows = OperationItem.objects.filter(operation=operation, place__gte=trial.at, place__lt=until)
    items = list(rows.order_by("place"))
    contents = store.contents([item.error_id for item in items], state=ErrorState.HOLD)
    for item in items:
        content = contents.get(item.error_id)
        if content is None or content.version != item.version:
            trial.absent += 1
        else:
            trial.add(item.place, use(recipe, subject_of(content), rules))
    trial.at = min(until, operation.total)


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
    """The work on each message; fixed for as long as a runner holds the operation."""

    operation: Operation
    rules: Rules = field(default_factory=Rules)
    observe: Observe = _silent

    @property
    def move(self) -> Move:
        return moves.VERBS[self.operation.verb]

    @property
    def scope(self) -> Scope:
        """Return the scope of whoever let it run."""
        systems = self.operation.systems
        return EVERYTHING if systems is None else Scope(frozenset(systems))

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
    for item in fit:
        match use(recipe, subject_of(contents[item.error]), job.rules):
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


def _change(job: Job, move: Move, fit: Mapping[UUID, Locked]) -> None:
    """Write the state that a verb leads to and the history; markers not yet sent are taken back."""
    for late in (False, True):
        ids = [id_ for id_, row in fit.items() if row.seen.late is late]
        if ids:
            more = errors.released(late=late) if move is moves.RELEASE else errors.COLUMNS[move]
            values: dict[str, object] = {"state": move.target, "version": F("version") + 1, **more}
            # The rows are locked and their states were looked at: nothing else can match.
            MessageError.objects.filter(pk__in=ids).update(**values)
    _note(job, move, [(id_, row.seen.state, None) for id_, row in fit.items()])
    if move.target in CLOSED:
        key_order.wake(execute, list(fit))
    with_marker = [id_ for id_, row in fit.items() if row.carrier == "topic"]
    if with_marker:
        errors.cancel_retry_markers(with_marker)


def _note(job: Job, move: Move, rows: Sequence[tuple[UUID, ErrorState, bytes | None]]) -> None:
    by = job.operation
    decision = (by.actor, move.action, move.target.value, by.reason, by.pk)
    store.write_changes(decision, [(id_, state.value, payload) for id_, state, payload in rows])
