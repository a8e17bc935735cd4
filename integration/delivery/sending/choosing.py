"""The choice of messages to send: in order, one of a key at a time, no faster than allowed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from integration.delivery.batch_result import StateChange
from integration.delivery.key_order import order_key
from integration.delivery.outcome import HAS_ROW, PASSED, Failed, Outcome
from integration.delivery.sending.answers import IN_DOUBT
from integration.delivery.sending.call_threads import Call
from integration.delivery.sending.values import Doubt, Intent, Past
from integration.endpoints.outbound import outbound_of
from integration.policy.failure import Failure, FailureClass
from integration.values import content_hash

if TYPE_CHECKING:
    from integration.delivery.context import RunContext
    from integration.delivery.owned import Owned
    from integration.delivery.sending.results import Results
    from integration.delivery.sending.sender import Sender
    from integration.delivery.snapshot import EndpointSnapshot
    from integration.delivery.unit import Unit

# A run that died while it sent took the state of its probe along: so much later than the longest
# call another may take it.
PROBE_GRACE_SECONDS: Final = 1.0
NO_ENDPOINT: Final = Failure(
    FailureClass.PERMANENT,
    "NO_ENDPOINT",
    "Neither the queue nor a target of the message's channel names an endpoint for it.",
)
NOTHING: Final = Failure(
    FailureClass.PERMANENT,
    "NOTHING_TO_DELIVER",
    "The message has no value (a tombstone): a reader of the topic can use it, an endpoint "
    "gets nothing from it.",
)


class Choosing:
    """The messages of a batch that are not yet on their way."""

    def __init__(
        self,
        sender: Sender,
        context: RunContext,
        owned: Owned,
        pending: list[Unit],
        past: Past,
    ) -> None:
        self.sender = sender
        self.context = context
        self.owned = owned
        self.pending = pending
        self.past = past
        self.wait_seconds = 0.0
        self._busy: set[bytes] = set()
        self._open: dict[bytes, int] = {}
        self._alone = False
        self._on_the_way = 0
        if context.queue.keeps_keys_in_order:
            self._open = self._open_keys()

    @property
    def waits(self) -> bool:
        """Return whether something is left that only waits for its turn by the endpoint's limit."""
        return self.wait_seconds > 0 and bool(self.pending)

    def _open_keys(self) -> dict[bytes, int]:
        """The offset of the first open failure of each key: what lies behind it is parked."""
        keys = {u.record.key for u in self.pending if u.row is None and u.record.key is not None}
        if not keys:
            return {}
        by_order_key = {order_key(key): key for key in keys}
        open_keys = self.context.repository.open_keys(self.owned, sorted(by_order_key))
        return {by_order_key[key]: offset for key, offset in open_keys.items()}

    def failed_keys(self, results: Results) -> None:
        if self.context.queue.keeps_keys_in_order:
            self._open |= dict.fromkeys(results.new_keys, -1)

    def _is_behind(self, unit: Unit) -> bool:
        """Return whether a failure before it is open under its key."""
        key, offset = unit.record.key, unit.record.offset
        return unit.row is None and key is not None and offset > self._open.get(key, offset)

    def calls(self, results: Results) -> list[Call]:
        """Calls to be made now; messages that need none are ended on the way."""
        made: list[Call] = []
        self.wait_seconds = 0.0
        while (place := self._startable()) is not None and results.stop is None:
            unit = self.pending[place]
            if self._ended_without_a_call(unit, results):
                del self.pending[place]
                continue
            call = self._call(place, results)
            if call is None:
                break
            made.append(call)
        return made

    def landed(self, call: Call) -> None:
        """A call has ended: its keys and its thread are free."""
        self._on_the_way -= 1
        self._alone = False
        self._busy -= call.keys

    def missed(self, call: Call, units: list[Unit]) -> None:
        """Take back units without an intent; failures that a person moved are not ours any more."""
        self._busy -= {u.record.key for u in units if u.record.key is not None} & call.keys
        self.pending[:0] = [unit for unit in units if unit.row is None]

    def _startable(self) -> int | None:
        """The first message that may be looked at now, or None."""
        if not self.context.queue.keeps_keys_in_order:
            return 0 if self.pending and not self._is_beyond_stop(self.pending[0]) else None
        for place, unit in enumerate(self.pending):
            if unit.record.key not in self._busy and not self._is_beyond_stop(unit):
                return place
        return None

    def _is_beyond_stop(self, unit: Unit) -> bool:
        """Return whether a person wants the queue to stop before it."""
        stop = self.owned.stop_at
        return stop is not None and unit.moves and unit.at >= stop

    def _has_room(self, endpoint: EndpointSnapshot) -> bool:
        limit = min(self.context.queue.concurrency, endpoint.max_concurrent)
        if self._alone or self.sender.limits.is_probing(endpoint):
            limit = 1
        return self._on_the_way < limit

    def _ended_without_a_call(self, unit: Unit, results: Results) -> bool:
        """Return whether it ends without a call: unreadable, delivered before, parked, in doubt."""
        if self.context.queue.sequential and self._on_the_way:
            return False
        if self._has_ended_before(unit):
            results.passed(unit)
            return True
        known = self._known(unit)
        if known is not None:
            results.ended(unit, known)
            self.failed_keys(results)
            return True
        if self._is_behind(unit):
            results.park(unit)
            return True
        doubt = self.past.doubt_of(unit)
        failure = None if doubt is None else self._final(unit, doubt)
        if doubt is None or failure is None:
            return False
        results.doubted(doubt, unit, failure)
        self.failed_keys(results)
        return True

    def _has_ended_before(self, unit: Unit) -> bool:
        """Return whether this offset is read again: its ending was written when it came about."""
        if unit.row is not None:
            return False
        at = unit.record.offset
        is_delivered = self.past.delivered.get(at) == unit.message_id
        return is_delivered or unit.known is HAS_ROW or self._is_deleted(unit)

    def _is_deleted(self, unit: Unit) -> bool:
        deleted = self.past.deleted.get(unit.record.offset)
        return deleted is not None and deleted == content_hash(unit.record.value)

    def _known(self, unit: Unit) -> Outcome | None:
        if unit.known is not None:
            return unit.known
        if unit.message is None or unit.record.value is None:
            return Failed(NOTHING)
        if self.context.queue.endpoint_for(unit.interface) is None:
            is_read_by_partner = unit.interface in self.context.queue.routes
            return PASSED if is_read_by_partner else Failed(NO_ENDPOINT)
        return None

    def _final(self, unit: Unit, doubt: Doubt) -> Failure | None:
        """Return why a message in doubt is not sent again, or None when it is."""
        endpoint = self.context.queue.endpoint_for(unit.interface)
        if endpoint is None or not endpoint.idempotent or doubt.is_held:
            return IN_DOUBT
        if endpoint.id != doubt.endpoint:
            # Chosen since the call: it cannot drop a repeat of what went to the other one.
            return IN_DOUBT
        limit = self.context.queue.crash_limit
        if doubt.repeated >= limit:
            text = f"The process died each of {doubt.repeated + 1} times it sent this message."
            return Failure(FailureClass.CRASH, "PROCESS_CRASH", text)
        return None

    def _call(self, place: int, results: Results) -> Call | None:
        """A call that begins with this message, or None: no room, no slot, open circuit."""
        unit = self.pending[place]
        endpoint = self.context.queue.endpoint_for(unit.interface)
        doubt = self.past.doubt_of(unit)
        is_alone = doubt is not None and doubt.repeated > 0
        if endpoint is None or not self._has_room(endpoint) or (is_alone and self._on_the_way):
            return None
        probe_seconds = self.context.queue.handler_timeout_seconds + PROBE_GRACE_SECONDS
        deliverer = self.sender.deliverer(endpoint)
        if isinstance(deliverer, StateChange):
            results.halt(deliverer)
            return None
        shut = self.sender.limits.refusal(endpoint, probe_seconds)
        if shut is not None:
            results.halt(shut)
            return None
        is_probe = self.sender.limits.is_probing(endpoint)
        if is_probe and self._on_the_way:
            return None
        # Where order counts nothing may pass a message that fails, not in the same call either.
        is_single = is_alone or is_probe or self.context.queue.sequential
        most = 1 if is_single else deliverer.at_once
        together = self._gather(place, endpoint, self.sender.limits.most_in_a_call(endpoint, most))
        self.wait_seconds = self.sender.limits.wait_for_slot(endpoint, len(together))
        if self.wait_seconds > 0:
            self._put_back(place, together)
            return None
        self._alone = is_alone
        return self._made(Call(deliverer, endpoint, is_probe=is_probe), together)

    def _gather(self, place: int, endpoint: EndpointSnapshot, most: int) -> list[Unit]:
        """The message at `place` and what may share its call; taken out of those pending."""
        units = [self.pending.pop(place)]
        while len(units) < most:
            if units[-1].record.key is not None:
                self._busy.add(units[-1].record.key)
            following = self._startable()
            if following is None or not self._may_follow(self.pending[following], endpoint):
                break
            units.append(self.pending.pop(following))
        return units

    def _put_back(self, place: int, units: list[Unit]) -> None:
        """Undo `_gather`: it is not their turn yet."""
        self.pending[place:place] = units
        self._busy.difference_update(u.record.key for u in units if u.record.key is not None)

    def _may_follow(self, unit: Unit, endpoint: EndpointSnapshot) -> bool:
        if self._has_ended_before(unit) or self._known(unit) or self.past.doubt_of(unit):
            return False
        is_parked = unit.row is None and unit.record.key in self._open
        return not is_parked and self.context.queue.endpoint_for(unit.interface) is endpoint

    def _made(self, call: Call, units: list[Unit]) -> Call:
        for unit in units:
            attempt = 1 if unit.row is None else unit.row.attempts + 1
            call.intents.append(self._intent(call, unit, attempt))
            if unit.message is not None:  # Without one it has ended: see _known.
                message = outbound_of(unit.message)
                is_numbered = message.attempt == attempt
                call.messages.append(message if is_numbered else replace(message, attempt=attempt))
        call.keys = frozenset(u.record.key for u in units if u.record.key is not None)
        self._busy |= call.keys
        self._on_the_way += 1
        return call

    def _intent(self, call: Call, unit: Unit, attempt: int) -> Intent:
        doubt = self.past.doubt_of(unit)
        return Intent(
            unit=unit,
            endpoint=call.endpoint.id,
            attempt=attempt if doubt is None else doubt.attempt + 1,
            circuit_version=self.sender.limits.version(call.endpoint),
            replaces=() if doubt is None else (doubt.id,),
        )
