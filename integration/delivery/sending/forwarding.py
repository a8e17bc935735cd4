"""A batch of a queue that forwards: handled in one transaction, unless its endpoint is stopped."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from integration.delivery.attempt import Settled, remember
from integration.delivery.batch_result import StateChange
from integration.delivery.deliver import Delivered, deliver, must_stop
from integration.delivery.outcome import PASSED, UNREAD
from integration.delivery.sending.answers import IN_DOUBT
from integration.delivery.sending.results import Results
from integration.delivery.steps import Step
from integration.delivery.stopping import was_cut
from integration.policy.states import PartitionState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from integration.delivery.batch_result import BatchResult
    from integration.delivery.context import RunContext
    from integration.delivery.owned import Owned
    from integration.delivery.report import Report
    from integration.delivery.sending.sender import Sender
    from integration.delivery.sending.values import Past
    from integration.delivery.unit import Unit


def forward(
    sender: Sender, context: RunContext, owned: Owned, units: Sequence[Unit], report: Report
) -> Delivered:
    """Settle the batch with the records it becomes, or note why that has to wait.

    Raises LostError.
    """
    stop = _hindrance(sender, context)
    if stop is None:
        _read_anew(context, units)
        past = sender.past(context, owned, units)
        _pass_delivered(past, units)
        if not (past.doubts or past.doubted_errors):
            return deliver(context, owned, units, report)
        beside = _BesideDoubts(
            sender=sender, context=context, owned=owned, past=past, report=report
        )
        return beside.deliver(units)
    results = Results(context, owned, units)
    results.halt(stop)
    batch_outcome, _ = results.close([])
    if batch_outcome.batch_result.state is None:
        return Delivered(stopped=True)
    if not _settled(context, owned, batch_outcome.batch_result):
        return Delivered(fenced=True)
    context.observer.step(Step.COMMITTED)
    remember(owned, Settled(0, batch_outcome))
    return Delivered(stopped=True)


def _hindrance(sender: Sender, context: RunContext) -> StateChange | None:
    """Return why nothing may be forwarded now: what people switched, or settings that are wrong."""
    queue = context.queue
    stopped = None if queue.endpoint is None else sender.limits.switched_off(queue.endpoint)
    if stopped is None and queue.forward is not None and queue.forward.taker is None:
        text = queue.forward.problem
        return StateChange(state=PartitionState.WAITING, code="ENDPOINT_UNUSABLE", text=text)
    return stopped


def _read_anew(context: RunContext, units: Sequence[Unit]) -> None:
    """Give each its handler, also where it was read before the queue forwarded.

    The configuration may have become another while a batch before this one was sent; a message
    without a handler would count as applied.
    """
    taker = None if context.queue.forward is None else context.queue.forward.taker
    for unit in units:
        if unit.known is None and unit.taker is not taker:
            context.reader.fill(unit)


def _pass_delivered(past: Past, units: Sequence[Unit]) -> None:
    """Pass what another endpoint took, before the queue forwarded, beyond the position."""
    for unit in units if past.delivered else ():
        is_new = unit.row is None and _is_undecided(unit)
        if is_new and past.delivered.get(unit.record.offset) == unit.message_id:
            unit.known = PASSED


def _is_undecided(unit: Unit) -> bool:
    return unit.known is None or unit.known is UNREAD


@dataclass(frozen=True, slots=True, kw_only=True)
class _BesideDoubts:
    """A batch with messages whose call, before the queue forwarded, may have happened."""

    sender: Sender
    context: RunContext
    owned: Owned
    past: Past
    report: Report

    def deliver(self, units: Sequence[Unit]) -> Delivered:
        """Deliver the messages in their order, but hold those that another endpoint may have."""
        for part in self._parts(units):
            if self._is_in_doubt(part[0]):
                delivered = self._hold(part[0])
            else:
                delivered = deliver(self.context, self.owned, part, self.report)
            # Where a stop was set meanwhile, the rest is read again, from the position on.
            is_cut = any(unit.moves and self.owned.next_offset <= unit.at for unit in part)
            if delivered.fenced or delivered.stopped or is_cut:
                return delivered
        return Delivered()

    def _is_in_doubt(self, unit: Unit) -> bool:
        return _is_undecided(unit) and self.past.doubt_of(unit) is not None

    def _parts(self, units: Sequence[Unit]) -> Iterator[Sequence[Unit]]:
        """Yield each that is in doubt alone, and those between together."""
        for is_in_doubt, part in groupby(units, self._is_in_doubt):
            if is_in_doubt:
                yield from ([unit] for unit in part)
            else:
                yield list(part)

    def _hold(self, unit: Unit) -> Delivered:
        """Whatever that endpoint promised, it cannot drop what goes into a topic."""
        context, owned, doubt = self.context, self.owned, self.past.doubt_of(unit)
        if doubt is None or not self.sender.read_alone(context, owned, unit, self.past):
            return Delivered(fenced=True)
        results = Results(context, owned, [unit])
        results.doubted(doubt, unit, IN_DOUBT)
        batch_outcome, ended = results.close([])
        if not _settled(context, owned, batch_outcome.batch_result):
            return Delivered(fenced=not was_cut(context, owned))
        context.observer.step(Step.COMMITTED)
        remember(owned, Settled(ended, batch_outcome))
        self.report.add(batch_outcome)
        return Delivered(stopped=must_stop(context, owned, [batch_outcome]))


def _settled(context: RunContext, owned: Owned, batch_result: BatchResult) -> bool:
    context.observer.step(Step.BEGUN)
    if context.manager.is_lost():
        return False
    done = context.repository.settle_at_once(owned, batch_result)
    if done is not None:
        return done
    with context.repository.work(owned) as work:
        if not work.settle(batch_result):
            return False
        context.observer.step(Step.SETTLED)
    return True
