"""The in-memory fake of what sending stores: calls, and the state of endpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from uuid import UUID

from integration.delivery.owned import Owned
from integration.delivery.sending.ports import EndpointStatus
from integration.delivery.sending.values import Dispatch, Doubt, Intent, Past
from integration.policy.circuit import CLOSED, Circuit, Move, most_together
from integration.policy.states import CircuitState, DeliveryState, ErrorState
from integration.values import content_hash
from tests.support.memory.clock import MemoryClock
from tests.support.memory.rows import ErrorRow

Place = tuple[str, int, int]
AHEAD_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRow:
    """One call of an endpoint."""

    id: int
    endpoint: int
    place: Place
    error: UUID | None
    message_id: str
    attempt: int
    epoch: int
    circuit: int | None = None
    state: DeliveryState = DeliveryState.SENDING
    code: str = ""


@dataclass(slots=True)
class MemoryCalls:
    """The table of calls of one queue. `errors` are its failures, `circuits` the endpoints."""

    errors: dict[UUID, ErrorRow]
    circuits: "MemoryCircuits"
    rows: dict[int, CallRow] = field(default_factory=dict)
    numbers: "count[int]" = field(default_factory=lambda: count(1))

    def write(self, dispatch: Dispatch, owned: Owned, stop_at: int | None = None) -> None:
        """Part of a commit: ends, failures given back, then the intents of what comes next."""
        for end in dispatch.ends:
            self._end(end.id, end.state, end.code)
        for returned in dispatch.returned:
            self._give_back(returned.id, returned.state, owned)
        for intent in dispatch.intents:
            at = intent.unit.at
            is_stopped = stop_at is not None and intent.unit.row is None and at >= stop_at
            if not is_stopped and self.circuits.allows(intent.endpoint, intent.circuit_version):
                self._intend(intent, owned)

    def _end(self, id_: int, state: DeliveryState, code: str) -> None:
        if self.rows[id_].state is DeliveryState.SENDING:
            self.rows[id_] = replace(self.rows[id_], state=state, code=code)

    def _give_back(self, error: UUID, state: str, owned: Owned) -> None:
        row = self.errors[error]
        if row.state is ErrorState.PROCESSING and row.epoch == owned.epoch:
            known = replace(row, state=ErrorState(state), epoch=None, version=row.version + 1)
            self.errors[error] = known

    def _intend(self, intent: Intent, owned: Owned) -> None:
        unit, row = intent.unit, intent.unit.row
        topic = owned.topic_uuid
        if row is not None:
            known = self.errors[row.id]
            if known.version != row.version:
                return
            self.errors[row.id] = replace(
                known,
                version=known.version + 1,
                state=ErrorState.PROCESSING,
                epoch=owned.epoch,
            )
            topic = row.topic_uuid
        place = (topic, unit.record.partition, unit.record.offset)
        for old in intent.replaces:
            self._end(old, DeliveryState.FAILED, "SENT_AGAIN")
        for old, call in self.rows.items():
            if call.place == place and call.state is DeliveryState.UNKNOWN:
                self.rows[old] = replace(call, state=DeliveryState.FAILED, code="RELEASED")
        intent.id = next(self.numbers)
        self.rows[intent.id] = CallRow(
            id=intent.id,
            endpoint=intent.endpoint,
            place=place,
            error=None if row is None else row.id,
            message_id=unit.message_id,
            attempt=intent.attempt,
            epoch=owned.epoch,
            circuit=intent.circuit_version,
        )

    def past(self, owned: Owned, offsets: Sequence[int]) -> Past:
        """See ports.Repository.past."""
        asked = {(owned.topic_uuid, owned.partition, offset) for offset in offsets}
        delivered = [c for c in self.rows.values() if c.state is DeliveryState.DELIVERED]
        in_doubt = [
            call
            for call in self.rows.values()
            if call.state is DeliveryState.SENDING and call.epoch < owned.epoch
        ]
        doubts = {
            call.id: Doubt(call.id, call.endpoint, call.attempt, self._repeats(call))
            for call in in_doubt
        }
        for call in in_doubt:
            self.circuits.free(call.endpoint, call.circuit)
        closed = (ErrorState.RESOLVED, ErrorState.DELETED)
        here = (owned.topic_uuid, owned.partition)
        beyond = [c.place[2] for c in delivered if c.place[:2] == here]
        return Past(
            delivered={c.place[2]: c.message_id for c in delivered if c.place in asked},
            deleted={
                row.place[2]: content_hash(row.record.value)
                for row in self.errors.values()
                if row.state in closed and row.place in asked
            },
            doubts={c.place[2]: doubts[c.id] for c in in_doubt if c.error is None},
            doubted_errors={c.error: doubts[c.id] for c in in_doubt if c.error is not None},
            last=max((at for at in beyond if at >= owned.next_offset), default=-1),
        )

    def _repeats(self, call: CallRow) -> int:
        return sum(
            other.place == call.place and other.code == "SENT_AGAIN" for other in self.rows.values()
        )


class MemoryCircuits:
    """See sending.ports.Circuits. One clock for all of it: the database's."""

    def __init__(self, clock: MemoryClock) -> None:
        self.clock = clock
        self.rows: dict[int, tuple[Circuit, int, float | None]] = {}
        self.texts: dict[int, str] = {}
        self.slots_at: dict[int, float] = {}
        self.switched_off: set[int] = set()

    def allows(self, endpoint: int, version: int | None) -> bool:
        """Whether an intent may be written under that version of the circuit."""
        circuit, known, _ = self._row(endpoint)
        is_probe = circuit.state is CircuitState.HALF_OPEN and known == version
        return circuit.state is CircuitState.CLOSED or is_probe

    def _row(self, endpoint: int) -> tuple[Circuit, int, float | None]:
        return self.rows.get(endpoint, (CLOSED, 0, None))

    def look(self, endpoint: int) -> EndpointStatus:
        circuit, version, resume_at = self._row(endpoint)
        left = None if resume_at is None else resume_at - self.clock.seconds
        enabled = endpoint not in self.switched_off
        return EndpointStatus(
            circuit=circuit,
            version=version,
            resume_seconds=left,
            text=self.texts.get(endpoint, ""),
            enabled=enabled,
        )

    def probe(self, endpoint: int, version: int, seconds: float) -> int | None:
        circuit, known, resume_at = self._row(endpoint)
        is_over = resume_at is None or resume_at <= self.clock.seconds
        if known != version or circuit.state is CircuitState.CLOSED or not is_over:
            return None
        half = replace(circuit, state=CircuitState.HALF_OPEN)
        self.rows[endpoint] = (half, known + 1, self.clock.seconds + seconds)
        return known + 1

    def free(self, endpoint: int, version: int | None) -> None:
        """Whoever made the probe under that version has died in it."""
        circuit, known, _ = self._row(endpoint)
        if circuit.state is CircuitState.HALF_OPEN and known == version:
            opened = replace(circuit, state=CircuitState.OPEN)
            self.rows[endpoint] = (opened, known + 1, self.clock.seconds)

    def move(self, endpoint: int, version: int, move: Move, code: str, text: str) -> int | None:
        _, known, _ = self._row(endpoint)
        if known != version:
            return None
        pause = move.pause_seconds
        resume_at = None if pause is None else self.clock.seconds + pause
        self.rows[endpoint] = (move.circuit, known + 1, resume_at)
        self.texts[endpoint] = text
        return known + 1

    def slots(self, endpoint: int, count: int, per_second: float) -> float:
        now, free_at = self.clock.seconds, self.slots_at.get(endpoint, 0.0)
        taken = count / per_second
        most = most_together(per_second) / per_second
        if now + AHEAD_SECONDS < free_at <= now + most + 2 * AHEAD_SECONDS:
            return free_at - now
        known = free_at if free_at <= now + AHEAD_SECONDS else now
        self.slots_at[endpoint] = max(known, now) + taken
        return 0.0
