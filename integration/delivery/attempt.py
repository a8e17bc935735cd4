"""One transaction over some messages: run them, settle them, commit, or leave no trace."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from typing import Final

from django.db import DatabaseError

from integration.delivery.batch_outcome import BatchOutcome, batch_outcome
from integration.delivery.batch_result import Applied, BatchResult
from integration.delivery.context import RunContext
from integration.delivery.exhaustion import call_hooks
from integration.delivery.handler_transaction import FailedAt, HandlerTransaction
from integration.delivery.key_order import KeyOrder, moving_keys, read_order_keys
from integration.delivery.outcome import DUPLICATE, STALE, Failed, Good, Outcome
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError, UnitOfWork, nothing
from integration.delivery.snapshot import QueueSnapshot
from integration.delivery.spans import NO_SPANS, BatchSpans, NoSpans
from integration.delivery.steps import Step
from integration.delivery.tracked import new_tuple
from integration.delivery.two_phase import NotPublishedError
from integration.delivery.unit import OpenError, Unit
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound, current
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
    batch_outcome: BatchOutcome


@dataclass(frozen=True, slots=True)
class Fenced:
    """Somebody else owns the partition by now, or a stop lies in between; nothing was written."""


@dataclass(frozen=True, slots=True)
class _Open:
    """An open transaction: what is done through it, what it publishes, the spans of its tries."""

    work: UnitOfWork
    outbound: Outbound
    spans: NoSpans


def attempt(
    context: RunContext, owned: Owned, units: Sequence[Unit], mode: Mode
) -> Settled | FailedAt | Fenced:
    """Try the messages in one transaction, and remember what has come of it.

    Settled when it is committed, also when it ended early at a stop; FailedAt when an optimistic
    try was rolled back; Fenced when the epoch was no longer ours, or the position would go beyond
    the stop that a person set meanwhile. Raises LostError.
    """
    result = tried(context, owned, units, mode, context.meanwhile())
    if isinstance(result, Settled):
        remember(owned, result)
        wake(context, owned, result)
    return result


def tried(
    context: RunContext,
    owned: Owned,
    units: Sequence[Unit],
    mode: Mode,
    meanwhile: Callable[[], bool] = nothing,
) -> Settled | FailedAt | Fenced:
    """Do the same without remembering: what the run knows of the partition stays as it was.

    So threads can do it side by side. `meanwhile` as in Repository.work.
    """
    outbound, spans = Outbound(), NO_SPANS
    if context.tracer is not None:
        spans = BatchSpans(context.tracer, context.queue, owned)
        outbound.context_of = spans.context_of
    token = current.set(outbound)
    try:
        with context.repository.work(owned, meanwhile) as work:
            opened = _Open(work, outbound, spans)
            result = _in_transaction(context, owned, units, opened, mode=mode)
            if not isinstance(result, Settled):
                work.abandon()
            if context.queue.two_phase:
                # Kafka's time is not the handlers', so nothing is read ahead in it either.
                context.manager.resting()
                context.looks_ahead = False
    except NotPublishedError as e:
        return FailedAt(None, e.failure)
    except DatabaseError as e:
        # The commit itself was refused: a constraint that nothing had checked before.
        return FailedAt(None, classify(e))
    finally:
        current.reset(token)
        context.manager.resting()
    if isinstance(result, Settled):
        context.observer.step(Step.COMMITTED)
        spans.settled()
    return result


def wake(context: RunContext, owned: Owned, settled: Settled) -> None:
    """Wake what waits for what a commit has stored."""
    batch_result = settled.batch_outcome.batch_result
    if batch_result.arrivals or batch_result.waits_for_objects:
        context.repository.wake_waiting(owned, batch_result)


def _in_transaction(
    context: RunContext,
    owned: Owned,
    units: Sequence[Unit],
    opened: _Open,
    *,
    mode: Mode,
) -> Settled | FailedAt | Fenced:
    context.observer.step(Step.BEGUN)
    work, outbound, spans = opened.work, opened.outbound, opened.spans
    count, units = len(units), _claimed(work, units)
    _number(context.queue, owned, units, work.arrival)
    spans.begin(units, work.arrival)
    keys = _key_order(context, owned, units)
    if context.queue.dedupe:
        _find_duplicates(context.queue, owned, work, units)
    outcomes = _handled(context, owned, units, opened, keys, mode=mode)
    context.observer.step(Step.HANDLED)
    if work.is_lost():
        raise LostError
    if isinstance(outcomes, FailedAt):
        return outcomes
    context.observer.step(Step.CHECKED)
    outcomes = call_hooks(context, work, outbound, units, outcomes)
    result = batch_outcome(context, owned, units, outcomes)
    spans.note(units, outcomes)
    if owned.in_work is not None:
        result.batch_result.closed = _closed(units, outcomes, result)
    result.batch_result.outgoing += outbound.rows
    result.batch_result.arrivals += outbound.arrivals
    if context.queue.dedupe:
        _remember_ids(context.queue, owned, result, units, outcomes)
    if context.manager.is_lost() or not work.settle(result.batch_result):
        return Fenced()
    context.observer.step(Step.SETTLED)
    return Settled(count if len(outcomes) == len(units) else len(outcomes), result)


def _handled(
    context: RunContext,
    owned: Owned,
    units: Sequence[Unit],
    opened: _Open,
    keys: KeyOrder | None,
    *,
    mode: Mode,
) -> list[Outcome] | FailedAt:
    """Call the handlers, in one go or under savepoints."""
    handler_transaction = HandlerTransaction(
        opened.work,
        opened.outbound,
        context.queue,
        context.manager,
        keys=keys,
        call_one=opened.spans.call,
    )
    if mode is Mode.OPTIMISTIC:
        return handler_transaction.optimistic(units)
    return handler_transaction.with_savepoints(units, owned.rate.together())


def _closed(units: Sequence[Unit], outcomes: Sequence[Outcome], result: BatchOutcome) -> list[int]:
    """Return the offsets that are through: those before the message that stops the rest."""
    ended = takewhile(lambda unit: unit is not result.stopped_at, units[: len(outcomes)])
    return [unit.at for unit in ended if unit.moves]


def _claimed(work: UnitOfWork, units: Sequence[Unit]) -> Sequence[Unit]:
    """Leave out rows that a person moved since they were read; their markers pass as stale."""
    rows = [unit.row for unit in units if unit.row is not None]
    if not rows:
        return units
    claimed = work.claim([(row.id, row.version) for row in rows])
    # What was to follow one that was moved stays parked, or waits for its turn anew.
    moved_keys = {row.order_key for row in rows if row.id not in claimed} - {None}
    live: list[Unit] = []
    for unit in units:
        if unit.row is None or unit.row.id in claimed:
            if unit.row is None or unit.moves or unit.row.order_key not in moved_keys:
                live.append(unit)
        elif unit.moves and unit.at != unit.row.offset:
            stale = Unit(unit.record, None, None, STALE, "", "")
            stale.at = unit.at
            live.append(stale)
    return live


def _key_order(context: RunContext, owned: Owned, units: Sequence[Unit]) -> KeyOrder | None:
    """Return which keys may not go on: the commit that parks their messages asks for it."""
    if not context.queue.keeps_keys_in_order and not owned.has_parked:
        return None
    read_order_keys(units, context.queue.order_texts)
    moving = moving_keys(units)
    return KeyOrder(context.repository.open_keys(owned, moving) if moving else {})


def _number(queue: QueueSnapshot, owned: Owned, units: Sequence[Unit], batch: int) -> None:
    """Messages draw this batch's number, except those whose first attempt fixed theirs.

    Where repeats are dropped, what is read again around a failure keeps its number as well.
    """
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
        number = row.number
        if number is None:
            # Side by side, others have the same places in transactions of the same number.
            number = batch, place if owned.in_work is None else unit.at
            if row.apply_as_newest:
                unit.row = replace(row, newest_batch=number[0], newest_index=number[1])
        elif not queue.dedupe and _is_met_again(owned, row):
            number = batch, row.offset
        message.arrival = Arrival(*number)


def _is_met_again(owned: Owned, row: OpenError) -> bool:
    """Return whether the position went back over its message.

    What was read again before it is older, whatever number that has drawn meanwhile.
    """
    is_here = (row.topic_uuid, row.partition) == (owned.topic_uuid, owned.partition)
    return is_here and owned.reads_again(row.offset)


def remember(owned: Owned, settled: Settled) -> None:
    """Remember what a commit has made of the partition."""
    batch_result = settled.batch_outcome.batch_result
    owned.next_offset = _reached(owned, batch_result)
    if batch_result.state is not None:
        owned.state = batch_result.state.state
        owned.state_code = batch_result.state.code
        owned.probes = batch_result.state.probes
        owned.due = batch_result.state.state is PartitionState.RUNNING
    if batch_result.new_errors or batch_result.changes:
        owned.may_have_head = True
    owned.rate.add(failed=settled.batch_outcome.failed, handled=settled.count)
    for new in batch_result.new_errors:
        # What a person switched off fails for a known reason; only its number has a limit.
        # A message parked behind another was not tried at all.
        if new.failure.kind is not FailureClass.DISABLED and new.counters.attempts:
            owned.failure_streak.saw_failure(new.failure.fingerprint)
    if settled.count > settled.batch_outcome.failed:
        _success_between(owned, settled)


def _reached(owned: Owned, batch_result: BatchResult) -> int:
    if owned.in_work is None or batch_result.closed is None:
        return batch_result.next_offset
    return owned.in_work.close(batch_result.closed)


def _success_between(owned: Owned, settled: Settled) -> None:
    """End a series of failures: only an applied message does, no retry marker or passed record."""
    batch_result = settled.batch_outcome.batch_result
    tracks = chain(batch_result.tracks, (track for _, track in batch_result.strays))
    if any(track[3] in WORKED for track in tracks):
        owned.failure_streak.saw_success()


def _find_duplicates(
    queue: QueueSnapshot, owned: Owned, work: UnitOfWork, units: Sequence[Unit]
) -> None:
    """Same id, same content: DUPLICATE. Same id, other content: held, never dropped.

    A failure that is tried again may have a repetition that was applied in another partition while
    its first try failed. Other content under its id does not concern it: a person has released it.
    What was applied at its own place is itself, and a replay hands it out again.
    """
    untried = [unit for unit in units if unit.known is None]
    fresh = [unit for unit in untried if unit.row is None]
    again = [unit for unit in untried if unit.row is not None]
    if again:
        applied = work.applied([unit.message_id for unit in again])
        for unit in again:
            first = applied.get(unit.message_id)
            if first is None or first == _as_applied(owned, unit, first.content):
                continue
            if _is_in(frozenset({first.content}), queue, unit):
                unit.known = DUPLICATE
    hashes_by_id = dict(work.seen([unit.message_id for unit in fresh])) if fresh else {}
    for unit in fresh:
        hashes = hashes_by_id.get(unit.message_id, frozenset())
        hashes_by_id[unit.message_id] = hashes | {queue.hash_of(unit.record.value)}
        if _is_in(hashes, queue, unit):
            unit.known = DUPLICATE
        elif hashes:
            unit.known = Failed(_reused(unit.message_id))


def _is_in(hashes: frozenset[bytes], queue: QueueSnapshot, unit: Unit) -> bool:
    """Return whether the content is among these; as a whole, too, as it was once remembered."""
    value = unit.record.value
    return bool(hashes) and (queue.hash_of(value) in hashes or content_hash(value) in hashes)


def _reused(message_id: str) -> Failure:
    text = f"The message id {message_id!r} was used before with other content."
    return Failure(FailureClass.PERMANENT, "ID_REUSED", text)


def _remember_ids(
    queue: QueueSnapshot,
    owned: Owned,
    result: BatchOutcome,
    units: Sequence[Unit],
    outcomes: Sequence[Outcome],
) -> None:
    for unit, outcome in zip(units, outcomes, strict=False):
        if isinstance(outcome, Good) and unit.known is None:
            applied = _as_applied(owned, unit, queue.hash_of(unit.record.value))
            must_be_new = unit.row is None
            result.batch_result.seen.append((unit.message_id, applied, must_be_new))


def _as_applied(owned: Owned, unit: Unit, content: bytes) -> Applied:
    topic_uuid = owned.topic_uuid if unit.row is None else unit.row.topic_uuid
    return Applied(content, topic_uuid, unit.record.partition, unit.record.offset)
