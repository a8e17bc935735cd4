"""One transaction over some messages: run them, settle them, commit, or leave no trace."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from django.db import DatabaseError

from integration.delivery.outcome import DUPLICATE, STALE, Failed, Outcome
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError, Work
from integration.delivery.road import Road
from integration.delivery.settling import Tally, tally
from integration.delivery.steps import Step
from integration.delivery.tracing import new_tuple
from integration.delivery.trial import FailedAt, Trial
from integration.delivery.unit import Unit
from integration.handlers.failures import classify
from integration.handlers.publishing import Outbound, current
from integration.message import Arrival
from integration.policy.batching import Mode
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import Ended, PartitionState
from integration.values import content_hash

WORKED: Final = frozenset({Ended.APPLIED, Ended.DELIVERED})


@dataclass(frozen=True, slots=True)
class Settled:
    """Committed: how many of the messages have ended, and how."""

    count: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class Fenced:
    """Somebody else owns the partition by now; nothing was written."""


def attempt(
    road: Road, owned: Owned, units: Sequence[Unit], mode: Mode
) -> Settled | FailedAt | Fenced:
    """Try the messages in one transaction.

    Settled when it is committed, also when it ended early at a stop; FailedAt when an optimistic
    try was rolled back; Fenced when the epoch was no longer ours. Raises LostError.
    """
    outbound = Outbound()
    token = current.set(outbound)
    try:
        with road.ledger.work(owned, road.read_ahead) as work:
            result = _in_transaction(road, owned, units, (work, outbound, mode))
            if not isinstance(result, Settled):
                work.abandon()
    except DatabaseError as e:
        # The commit itself was refused: a constraint that nothing had checked before.
        return FailedAt(None, classify(e))
    finally:
        current.reset(token)
        road.desk.resting()
    if isinstance(result, Settled):
        road.observer.step(Step.COMMITTED)
        remember(owned, result)
    return result


def _in_transaction(
    road: Road, owned: Owned, units: Sequence[Unit], how: tuple[Work, Outbound, Mode]
) -> Settled | FailedAt | Fenced:
    work, outbound, mode = how
    road.observer.step(Step.BEGUN)
    asked, units = len(units), _claimed(work, units)
    _number(owned, units, work.arrival)
    if road.queue.dedupe:
        _find_duplicates(work, units)
    trial = Trial(work, outbound, road.queue, road.desk)
    if mode is Mode.OPTIMISTIC:
        outcomes = trial.optimistic(units)
    else:
        outcomes = trial.with_savepoints(units, owned.rate.together())
    road.observer.step(Step.HANDLED)
    if work.is_lost():
        raise LostError
    if isinstance(outcomes, FailedAt):
        return outcomes
    road.observer.step(Step.CHECKED)
    result = tally(road, owned, units, outcomes)
    result.settlement.outgoing += outbound.rows
    if road.queue.dedupe:
        _remember_ids(result, units, outcomes)
    if road.desk.is_lost() or not work.settle(result.settlement):
        return Fenced()
    road.observer.step(Step.SETTLED)
    return Settled(asked if len(outcomes) == len(units) else len(outcomes), result)


def _claimed(work: Work, units: Sequence[Unit]) -> Sequence[Unit]:
    """Leave out rows that a person moved since they were read; their tickets pass as stale."""
    rows = [unit.row for unit in units if unit.row is not None]
    if not rows:
        return units
    claimed = work.claim([(row.id, row.version) for row in rows])
    live: list[Unit] = []
    for unit in units:
        if unit.row is None or unit.row.id in claimed:
            live.append(unit)
        elif unit.moves and unit.at != unit.row.offset:
            stale = Unit(unit.record, None, None, STALE, "", "")
            stale.at = unit.at
            live.append(stale)
    return live


def _number(owned: Owned, units: Sequence[Unit], batch: int) -> None:
    """Messages draw this batch's number, except those whose first attempt fixed theirs."""
    topic_uuid = owned.topic_uuid
    for place, unit in enumerate(units):
        message, row = unit.message, unit.row
        if message is None:
            continue
        if row is None:
            message.topic_uuid = topic_uuid
            message.arrival = new_tuple(Arrival, (batch, unit.record.offset))
            continue
        message.topic_uuid = row.topic_uuid
        if row.apply_as_newest or row.arrival_batch is None or row.arrival_index is None:
            message.arrival = Arrival(batch, place)
        else:
            message.arrival = Arrival(row.arrival_batch, row.arrival_index)


def remember(owned: Owned, settled: Settled) -> None:
    """What the run knows of its partition after a commit."""
    settlement = settled.tally.settlement
    owned.next_offset = settlement.next_offset
    if settlement.state is not None:
        owned.state = settlement.state.state
        owned.state_code = settlement.state.code
        owned.probes = settlement.state.probes
        owned.due = settlement.state.state is PartitionState.RUNNING
    if settlement.new_errors or settlement.changes:
        owned.may_have_head = True
    owned.rate.add(failed=settled.tally.failed, handled=settled.count)
    for new in settlement.new_errors:
        # What a person switched off fails for a known reason; only its number has a limit.
        # A message parked behind another was not tried at all.
        if new.failure.kind is not FailureClass.DISABLED and new.counters.attempts:
            owned.brake.saw_failure(new.failure.fingerprint)
    if settled.count > settled.tally.failed:
        _success_between(owned, settled)


def _success_between(owned: Owned, settled: Settled) -> None:
    """Only an applied message interrupts a series; tickets and passed records say nothing."""
    settlement = settled.tally.settlement
    tracks = chain(settlement.tracks, (track for _, track in settlement.strays))
    if any(track[3] in WORKED for track in tracks):
        owned.brake.saw_success()


def _find_duplicates(work: Work, units: Sequence[Unit]) -> None:
    """Same id, same content: DUPLICATE. Same id, other content: held, never dropped."""
    fresh = [unit for unit in units if unit.row is None and unit.known is None]
    seen = dict(work.seen([unit.message_id for unit in fresh]))
    for unit in fresh:
        own = content_hash(unit.record.value)
        known = seen.get(unit.message_id, frozenset())
        seen[unit.message_id] = known | {own}
        if own in known:
            unit.known = DUPLICATE
        elif known:
            unit.known = Failed(_reused(unit.message_id))


def _reused(message_id: str) -> Failure:
    text = f"The message id {message_id!r} was used before with other content."
    return Failure(FailureClass.PERMANENT, "ID_REUSED", text)


def _remember_ids(result: Tally, units: Sequence[Unit], outcomes: Sequence[Outcome]) -> None:
    for unit, outcome in zip(units, outcomes, strict=False):
        if not isinstance(outcome, Failed) and unit.known is None:
            value = content_hash(unit.record.value)
            result.settlement.seen.append((unit.message_id, value, unit.record.offset))
