"""Sending as one run does it: endpoints opened once, what is known of earlier calls, batches."""

from collections.abc import Callable, Sequence

from integration.delivery.batch_result import StateChange
from integration.delivery.context import RunContext
from integration.delivery.deliver import Delivered, read_late
from integration.delivery.outcome import UNREAD
from integration.delivery.owned import Owned
from integration.delivery.parts import hold_crasher
from integration.delivery.report import Report
from integration.delivery.sending.call_threads import CallThreads
from integration.delivery.sending.delivery_batch import DeliveryBatch
from integration.delivery.sending.forwarding import forward
from integration.delivery.sending.limits import Limits
from integration.delivery.sending.values import Past
from integration.delivery.snapshot import EndpointSnapshot
from integration.delivery.steps import Step
from integration.delivery.unit import Unit
from integration.endpoints.port import Deliverer
from integration.errors import IntegrationError
from integration.policy.states import PartitionState


class Sender:
    """The counterpart of `deliver` for outbound queues. Made for one run, closed at its end."""

    def __init__(
        self, limits: Limits, call_threads: CallThreads, open_endpoint: Callable[[int], Deliverer]
    ) -> None:
        self.limits = limits
        self.call_threads = call_threads
        self._open = open_endpoint
        self._opened: dict[int, tuple[object, Deliverer]] = {}
        self._past: dict[tuple[int, int], Past] = {}
        # Up to these offsets messages may have ended already; behind them nobody has to ask.
        self._seen: dict[int, int] = {}

    def deliver(
        self, context: RunContext, owned: Owned, units: Sequence[Unit], report: Report
    ) -> Delivered:
        """Call the endpoint for every message of the batch and settle it. Raises LostError.

        Where the queue forwards, nothing is called: that is a handler in the batch's transaction.
        """
        if context.queue.forward is not None:
            return forward(self, context, owned, units, report)
        if owned.isolate_until is None:
            return DeliveryBatch(
                self, context, owned, units, self.past(context, owned, units), report=report
            ).run()
        for unit in units:
            past = self.past(context, owned, [unit])
            if not self.read_alone(context, owned, unit, past):
                return Delivered(fenced=True)
            delivered = DeliveryBatch(self, context, owned, [unit], past, report=report).run()
            if delivered.fenced or delivered.stopped:
                return delivered
        return Delivered()

    def read_alone(self, context: RunContext, owned: Owned, unit: Unit, past: Past) -> bool:
        """Read a message under a marker of its own, or have it held; False when fenced.

        While it is called its intent is the marker: a message with one was read, and is judged
        by what its call may have done.
        """
        if past.doubt_of(unit) is None:
            hold_crasher(context, owned, unit)
        if unit.known is not UNREAD:
            return True
        if not context.repository.mark(owned, unit):
            return False
        context.observer.step(Step.MARKED)
        read_late(context, [unit])
        context.manager.resting()
        context.repository.unmark(owned, unit)
        return True

    def past(self, context: RunContext, owned: Owned, units: Sequence[Unit]) -> Past:
        """Return what is known of earlier calls; of what has ended what is of these messages.

        Never more: beyond a position that was sent back, months of deliveries may lie.
        """
        key = (owned.id, owned.epoch)
        ahead = [unit.at for unit in units if unit.moves]
        # Beyond the position is what this run had in flight, and what has ended from its row.
        failed = -1 if owned.failed_until is None else owned.failed_until
        seen = max(self._seen.get(owned.id, -1), failed)
        # A doubt about a failure's call may be settled, and the failure be tried again since.
        is_row = any(unit.row is not None for unit in units)
        if key not in self._past or is_row or (ahead and ahead[0] <= seen):
            offsets = [unit.record.offset for unit in units if unit.row is None]
            # How far they reach stays as the first answer has it: what ends now is this run's own.
            known = self._past.get(key)
            last = None if known is None else known.last
            self._past[key] = context.repository.past(owned, offsets, last)
        last = self._past[key].last
        self._seen[owned.id] = max(self._seen.get(owned.id, -1), last, *ahead[-1:])
        return self._past[key]

    def deliverer(self, endpoint: EndpointSnapshot) -> Deliverer | StateChange:
        """The opened endpoint under its settings of now, or why it cannot be opened."""
        entry = self._opened.get(endpoint.id)
        if entry is not None and (entry[0] == endpoint.mark or self.call_threads.in_flight):
            return entry[1]
        if entry is not None:
            del self._opened[endpoint.id]
            entry[1].close()
        try:
            opened = self._open(endpoint.id)
        except IntegrationError as e:
            text = f"The endpoint {endpoint.name} cannot be used: {e}"
            return StateChange(state=PartitionState.WAITING, code="ENDPOINT_UNUSABLE", text=text)
        self._opened[endpoint.id] = (endpoint.mark, opened)
        return opened

    def close(self) -> None:
        """Give up threads and connections; may be called twice."""
        self.call_threads.close()
        while self._opened:
            _, (_, deliverer) = self._opened.popitem()
            deliverer.close()
