"""One batch on its way to endpoints: in flight at most as many as its concurrency says.

The thread that runs this owns the database; threads of `call_threads` only make calls. What has
ended is settled together with the intents of what comes next: one commit for each message of a
queue that sends one at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from django.db import DatabaseError

from integration.delivery.attempt import Settled, remember
from integration.delivery.deliver import Delivered
from integration.delivery.parts import FREE_CONFLICTS
from integration.delivery.ports import QueueGoneError
from integration.delivery.sending.choosing import Choosing
from integration.delivery.sending.results import Results
from integration.delivery.sending.spans import CallSpans
from integration.delivery.steps import Step
from integration.delivery.stopping import was_cut
from integration.endpoints.port import Answer, Unknown
from integration.handlers.failures import classify
from integration.policy.failure import FailureClass

if TYPE_CHECKING:
    from integration.delivery.batch_result import BatchResult
    from integration.delivery.context import RunContext
    from integration.delivery.owned import Owned
    from integration.delivery.report import Report
    from integration.delivery.sending.call_threads import Call
    from integration.delivery.sending.sender import Sender
    from integration.delivery.sending.values import Past
    from integration.delivery.unit import Unit

WAIT_SECONDS: Final = 0.2
CONFIGURATION_EVERY_SECONDS: Final = 1.0
# Then rows, the topic's identity and the copy of the position have their turn.
SLICE_SECONDS: Final = 5.0


class DeliveryBatch:
    """One batch of one partition. Made for one call of `deliver`, used once."""

    def __init__(
        self,
        sender: Sender,
        context: RunContext,
        owned: Owned,
        units: Sequence[Unit],
        past: Past,
        *,
        report: Report,
    ) -> None:
        self.sender = sender
        self.context = context
        self.owned = owned
        self.report = report
        self.call_threads = sender.call_threads
        self.results = Results(self.context, self.owned, units)
        self.choosing = Choosing(sender, context, owned, list(units), past)
        self.spans = None
        if context.tracer is not None:
            self.spans = CallSpans(context.tracer, context.queue, owned)
        self._number: int | None = None
        now = self.context.monotonic()
        self._began_at = self._configured_at = now
        self._looked_at = now
        self._is_over = False

    def run(self) -> Delivered:
        """Run until every message has ended, or there is a reason to stop; calls in flight end."""
        wait = 0.0
        try:
            while True:
                self.context.manager.working()
                for call in self._ended(wait):
                    self._take(call)
                calls = self._next()
                if calls or self.results.has_news:
                    if not self._commit(calls):
                        return Delivered(fenced=True)
                elif not self.call_threads.in_flight and not self._waits():
                    is_stopped = self.results.stop is not None or bool(self.choosing.pending)
                    return Delivered(stopped=is_stopped)
                self._look()
                busy = bool(self.call_threads.in_flight)
                wait = WAIT_SECONDS if busy else min(self.choosing.wait_seconds, WAIT_SECONDS)
        finally:
            # Where it was fenced or broke off, calls may be out: who goes on finds their doubts.
            self.call_threads.give_up()
            self.context.manager.resting()

    def _waits(self) -> bool:
        """Return whether a message only waits for the endpoint's limit."""
        is_stopped = self._is_over or self.results.stop is not None
        return not is_stopped and self.choosing.waits

    def _next(self) -> list[Call]:
        if self._is_over or self.results.stop is not None:
            return []
        return self.choosing.calls(self.results)

    def _ended(self, wait_seconds: float) -> list[Call]:
        """Calls that have ended; one that hangs is given up when a handler would be."""
        done = self.call_threads.finished(wait_seconds)
        limit = self.context.queue.handler_timeout_seconds
        for call in self.call_threads.overdue(limit):
            text = f"No answer came within the queue's time limit for one call, {limit:g} s."
            call.answers = [Unknown(code="CALL_OVERDUE", text=text)] * len(call.messages)
            call.took_seconds = limit
            done.append(call)
        return done

    def _take(self, call: Call) -> None:
        """Read the answers of one call: what they mean for the messages and for the endpoint."""
        self.context.observer.step(Step.SENT)
        self.choosing.landed(call)
        endpoint = call.endpoint
        for intent, answer in zip(call.intents, _answers(call), strict=True):
            row = intent.unit.row
            is_first = row is None or row.spent == 0
            is_free = call.is_probe and self.sender.limits.is_free(endpoint)
            self.sender.limits.heard(endpoint, answer, is_probe=call.is_probe, counts=is_first)
            self.results.answered(
                intent, answer, (endpoint, call, is_free), down=self.sender.limits.down
            )
            if self.spans is not None:
                self.spans.answered(call, intent, answer)
            self.choosing.failed_keys(self.results)

    def _commit(self, calls: list[Call]) -> bool:
        """Settle what has ended and the intents of what comes; False when fenced."""
        context, results = self.context, self.results
        batch_outcome, ended = results.close([intent for call in calls for intent in call.intents])
        result = batch_outcome.batch_result
        if not self._settled(result) and not self._settled_up_to_stop(result):
            return False
        context.observer.step(Step.COMMITTED)
        if self.spans is not None:
            self.spans.settled(self._number)
        remember(self.owned, Settled(ended, batch_outcome))
        if ended:
            self.report.add(batch_outcome)
        parked = batch_outcome.parked_keys
        if (batch_outcome.failed or parked) and context.stops_at_threshold(
            self.owned, batch_outcome.last_cause, parked
        ):
            self._is_over = True
        if calls:
            context.observer.step(Step.INTENDED)
        for call in calls:
            self._launch(call)
        return True

    def _settled(self, batch_result: BatchResult) -> bool:
        """Settle it; after a conflict with another session once more, a few times.

        Nobody is to blame for a deadlock. Calls were made, and what they were answered is known.
        """
        for _ in range(FREE_CONFLICTS):
            try:
                return self._settled_once(batch_result)
            except DatabaseError as e:
                if classify(e).kind is not FailureClass.CONFLICT:
                    raise
            _forget_intents(batch_result)
        return self._settled_once(batch_result)

    def _settled_once(self, batch_result: BatchResult) -> bool:
        context = self.context
        context.observer.step(Step.BEGUN)
        if context.manager.is_lost():
            return False
        done = context.repository.settle_at_once(self.owned, batch_result)
        self._number = None
        if done is not None:
            return done
        with context.repository.work(self.owned) as work:
            self._number = work.arrival
            # A copy: what settling puts in place of a new failure's id is undone with the rest.
            if not work.settle(replace(batch_result)):
                return False
            context.observer.step(Step.SETTLED)
        return True

    def _settled_up_to_stop(self, batch_result: BatchResult) -> bool:
        """Settle again what a stop refused: calls were made, and what became of them is kept.

        What ended without a call beyond the stop is kept, too, and passed when its turn comes.
        """
        if not was_cut(self.context, self.owned):
            return False
        batch_result.next_offset = self.owned.up_to_stop(batch_result.next_offset)
        _forget_intents(batch_result)
        return self._settled(batch_result)

    def _launch(self, call: Call) -> None:
        """Make the call with those of its messages whose intent was written."""
        pairs = list(zip(call.intents, call.messages, strict=True))
        meant = [(intent, message) for intent, message in pairs if intent.id is not None]
        missed = [intent.unit for intent, _ in pairs if intent.id is None]
        if missed:
            # The circuit is not what it was, or a person has moved the failure or set a stop.
            self.context.repository.read_stops([self.owned])
            self.choosing.missed(call, missed)
            self.sender.limits.forget(call.endpoint)
        if not meant:
            self.choosing.landed(call)
            self.sender.limits.give_back(call.endpoint)
            return
        for intent, _ in meant:
            if intent.unit.row is not None:
                intent.unit.row = replace(intent.unit.row, version=intent.unit.row.version + 1)
        call.intents = [intent for intent, _ in meant]
        call.messages = [message for _, message in meant]
        if self.spans is not None:
            self.spans.begin(call)
        if self._has_all_time(call):
            self.context.manager.working()
            self.call_threads.make(call)
        else:
            self.call_threads.start(call)

    def _has_all_time(self, call: Call) -> bool:
        """Return whether this thread may make it: nothing else is to do meanwhile, and it ends."""
        longest, queue = call.deliverer.within_seconds, self.context.queue
        ends = longest is not None and longest <= queue.handler_timeout_seconds
        return ends and queue.concurrency == 1 and not self.call_threads.in_flight

    def _look(self) -> None:
        """Look whether new messages may still be taken: asked five times a second."""
        now = self.context.monotonic()
        if now - self._began_at > SLICE_SECONDS:
            self._is_over = True
        if self._is_over or now - self._looked_at < WAIT_SECONDS:
            return
        self._looked_at = now
        if self.context.stop() is not None or self.context.manager.is_lost():
            self._is_over = True
        elif now - self._configured_at >= CONFIGURATION_EVERY_SECONDS:
            self._configured_at = now
            self.context.repository.read_stops([self.owned])
            self._is_over = not self._is_wanted()

    def _is_wanted(self) -> bool:
        try:
            self.context.adopt(self.context.repository.snapshot())
        except QueueGoneError:
            return False
        queue = self.context.queue
        return queue.enabled and not queue.paused and queue.forward is None


def _forget_intents(batch_result: BatchResult) -> None:
    """Forget the numbers of intents whose transaction was rolled back: the next one gives new."""
    if batch_result.dispatch is not None:
        for intent in batch_result.dispatch.intents:
            intent.id = None


def _answers(call: Call) -> Sequence[Answer]:
    """One answer for each message, whatever the endpoint's code did."""
    if call.failure is not None:
        text = f"The endpoint's code raised {type(call.failure).__name__}: {call.failure}"
        return [Unknown(code="ENDPOINT_RAISED", text=text)] * len(call.messages)
    missing = len(call.messages) - len(call.answers)
    if missing:
        text = "The endpoint's code gave another number of answers than it got messages."
        return [Unknown(code="ENDPOINT_RAISED", text=text)] * len(call.messages)
    return call.answers
