"""Results of the calls of one batch, gathered until the next commit."""

from collections.abc import Callable, Sequence

from integration.delivery.batch_outcome import KEPT, BatchOutcome, add, ending_of, stops
from integration.delivery.batch_result import RUNNING, BatchResult, StateChange
from integration.delivery.context import RunContext
from integration.delivery.endings import Ending, end_parked
from integration.delivery.key_order import order_key_of
from integration.delivery.outcome import Failed, Outcome
from integration.delivery.owned import Owned
from integration.delivery.sending.answers import read
from integration.delivery.sending.call_threads import Call
from integration.delivery.sending.values import DeliveryEnd, Dispatch, Doubt, Intent
from integration.delivery.snapshot import EndpointSnapshot
from integration.delivery.unit import Unit
from integration.endpoints.port import EXCERPT_CHARACTERS, Answer
from integration.policy.failure import Failure, FailureClass, cause_of
from integration.policy.states import DeliveryState, PartitionState

Circumstances = tuple[EndpointSnapshot, Call, bool]


class Results:
    """Collects endings; `close` turns them into one batch result and begins anew.

    The position goes to the lowest message that has not ended.
    """

    def __init__(self, context: RunContext, owned: Owned, units: Sequence[Unit]) -> None:
        self.context = context
        self.owned = owned
        self.stop: StateChange | None = None
        self.new_keys: set[bytes] = set()
        moving = [unit.at for unit in units if unit.moves]
        self._unended = dict.fromkeys(moving)
        self._after = moving[-1] + 1 if moving else owned.next_offset
        self._begin(owned.next_offset)

    def _begin(self, next_offset: int) -> None:
        self._tally = BatchOutcome(BatchResult(next_offset=next_offset))
        self._dispatch = Dispatch()
        self._ended = 0
        self._moved = False

    @property
    def has_news(self) -> bool:
        dispatch = self._dispatch
        return bool(self._ended or dispatch.ends or self._tally.batch_result.state)

    def answered(
        self,
        intent: Intent,
        answer: Answer,
        how: Circumstances,
        *,
        down: Callable[[EndpointSnapshot], StateChange],
    ) -> None:
        """One message of a call: its delivery ends, and so does the message, unless it waits."""
        endpoint, call, is_free = how
        # In a sequential queue nothing may pass the message: a gateway's outage of some minutes
        # would only end in a held head.
        is_charged = call.is_probe and not is_free and not self.context.queue.sequential
        outcome, state = read(
            answer,
            is_idempotent=endpoint.idempotent,
            is_free=is_free,
            is_charged=is_charged,
        )
        if intent.id is not None:
            self._dispatch.ends.append(_end(intent.id, state, answer, call))
        if isinstance(outcome, Failed) and outcome.failure.kind is FailureClass.OUTAGE:
            if intent.unit.row is not None:
                self._dispatch.returned.append(intent.unit.row)
            self.halt(down(endpoint))
        else:
            self.ended(intent.unit, outcome)

    def ended(self, unit: Unit, outcome: Outcome) -> None:
        """A message has ended, or failed: nothing more is done with it in this batch."""
        ending = ending_of(self.context, self.owned, unit, outcome)
        self._add(unit, ending)
        if isinstance(outcome, Failed):
            self._tally.failed += 1
            self._tally.last_cause = cause_of(outcome.failure)
            if unit.record.key is not None:
                self.new_keys.add(unit.record.key)

    def doubted(self, doubt: Doubt, unit: Unit, failure: Failure) -> None:
        """A message whose call an earlier owner never settled, and which must not be repeated."""
        is_crash = failure.kind is FailureClass.CRASH
        state = DeliveryState.FAILED if is_crash else DeliveryState.UNKNOWN
        crashes = doubt.repeated + 1 if is_crash else 0
        self._dispatch.ends.append(
            DeliveryEnd(id=doubt.id, state=state, code=failure.code, text=failure.text)
        )
        self.ended(unit, Failed(failure, crashes))

    def passed(self, unit: Unit) -> None:
        """A message whose ending is written already; only the position goes past it."""
        self._ended += 1
        if unit.moves:
            self._unended.pop(unit.at, None)
            self._moved = True

    def park(self, unit: Unit) -> None:
        """Put a message behind an earlier one of its key."""
        unit.order_key = order_key_of(unit.record)
        self._add(unit, end_parked(unit, self.context.chance(self.owned)))

    def halt(self, change: StateChange) -> None:
        """Nothing more is started; what is in flight may end."""
        if self.stop is None:
            self.stop = change
            if self.owned.state not in KEPT:
                self._tally.batch_result.state = change

    def _add(self, unit: Unit, ending: Ending) -> None:
        self._ended += 1
        add(self._tally, unit, ending, partition=self.owned.partition)
        if ending.stop is not None:
            self.stop = self.stop or ending.stop
            if stops(self.owned, unit):
                self._tally.batch_result.state = ending.stop
        elif unit.moves:
            self._unended.pop(unit.at, None)
            self._moved = True

    def close(self, intents: Sequence[Intent]) -> tuple[BatchOutcome, int]:
        """The batch result of all since the last one with these intents, and how many ended."""
        batch_outcome, batch_result, ended = self._tally, self._tally.batch_result, self._ended
        self._dispatch.intents = list(intents)
        batch_result.dispatch = self._dispatch
        next_offset = max(self.owned.next_offset, next(iter(self._unended), self._after))
        batch_result.next_offset = self.owned.up_to_stop(next_offset)
        cleared = self._moved and self.owned.state not in {
            PartitionState.RUNNING,
            PartitionState.BRAKED,
        }
        if cleared and batch_result.state is None and self.stop is None:
            batch_result.state = RUNNING
        batch_outcome.stop = self.stop
        self._note_reached(batch_result)
        self._begin(batch_result.next_offset)
        return batch_outcome, ended

    def _note_reached(self, batch_result: BatchResult) -> None:
        """Should the position be read again, what is known beyond it tells of the messages."""
        failed = [new.unit.record.offset for new in batch_result.new_errors]
        self.owned.failed_until = _farthest(failed, self.owned.failed_until)
        calls = self._dispatch.intents
        called = [intent.unit.record.offset for intent in calls if intent.unit.row is None]
        self.owned.called_until = _farthest(called, self.owned.called_until)


def _farthest(offsets: Sequence[int], known: int | None) -> int | None:
    return max(offsets if known is None else [*offsets, known], default=None)


def _end(delivery: int, state: DeliveryState, answer: Answer, call: Call) -> DeliveryEnd:
    return DeliveryEnd(
        id=delivery,
        state=state,
        took_ms=round(call.took_seconds * 1000),
        status=answer.status,
        code=answer.code,
        text=answer.text,
        excerpt=answer.excerpt[:EXCERPT_CHARACTERS],
        endpoint=call.endpoint.id,
    )
