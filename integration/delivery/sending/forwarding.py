"""A batch of a queue that forwards: handled in one transaction, unless its endpoint is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from integration.delivery.attempt import Settled, remember
from integration.delivery.batch_result import StateChange
from integration.delivery.deliver import Delivered, deliver
from integration.delivery.outcome import PASSED, UNREAD
from integration.delivery.sending.results import Results
from integration.delivery.steps import Step
from integration.policy.states import PartitionState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from integration.delivery.batch_result import BatchResult
    from integration.delivery.context import RunContext
    from integration.delivery.owned import Owned
    from integration.delivery.report import Report
    from integration.delivery.sending.sender import Sender
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
        _pass_delivered(sender, context, owned, units)
        return deliver(context, owned, units, report)
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


def _pass_delivered(
    sender: Sender, context: RunContext, owned: Owned, units: Sequence[Unit]
) -> None:
    """Pass what another endpoint took, before the queue forwarded, beyond the position."""
    delivered = sender.past(context, owned, units).delivered
    for unit in units if delivered else ():
        is_new = unit.row is None and (unit.known is None or unit.known is UNREAD)
        if is_new and delivered.get(unit.record.offset) == unit.message_id:
            unit.known = PASSED


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
