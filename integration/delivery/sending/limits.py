"""The decision whether an endpoint may be called now, and what its answers tell about it."""

from collections.abc import Callable
from typing import Final

from integration.delivery.batch_result import StateChange
from integration.delivery.sending.ports import Circuits, EndpointStatus
from integration.delivery.snapshot import EndpointSnapshot
from integration.endpoints.port import Accepted, Answer, Refused, Unreachable
from integration.policy import circuit
from integration.policy.circuit import Move
from integration.policy.states import CircuitState, PartitionState

LOOK_EVERY_SECONDS: Final = 0.2
TRIES: Final = 3


class Limits:
    """One run's view of the endpoints it calls. What it believes is at most 200 ms old.

    It may be wrong for that long: an intent is committed only under the circuit that was seen.
    """

    def __init__(
        self, circuits: Circuits, monotonic: Callable[[], float], roll: Callable[[], float]
    ) -> None:
        self.circuits = circuits
        self.monotonic = monotonic
        self.roll = roll
        self._known: dict[int, tuple[float, EndpointStatus]] = {}
        self._probes: dict[int, int] = {}

    def refusal(self, endpoint: EndpointSnapshot, probe_seconds: float) -> StateChange | None:
        """Return why the endpoint must not be called now, or None. May take the one probe."""
        status = self._look(endpoint.id)
        closed = _switched_off(endpoint, status)
        if closed is not None:
            return closed
        if status.circuit.state is CircuitState.CLOSED or self.is_probing(endpoint):
            return None
        if status.circuit.state is CircuitState.OPEN and (status.resume_seconds or 0.0) > 0:
            return self._down(endpoint, status)
        version = None
        if status.circuit.state is CircuitState.OPEN or (status.resume_seconds or 0.0) <= 0:
            version = self.circuits.probe(endpoint.id, status.version, probe_seconds)
        self.forget(endpoint)
        if version is None:
            return self._down(endpoint, status, circuit.OTHERS_WAIT_SECONDS)
        self._probes[endpoint.id] = version
        return None

    def switched_off(self, endpoint: EndpointSnapshot) -> StateChange | None:
        """Return why people want nothing sent to it now, or None; whatever its circuit says."""
        return _switched_off(endpoint, self._look(endpoint.id))

    def is_probing(self, endpoint: EndpointSnapshot) -> bool:
        """Return whether the one probe is ours."""
        status = self._look(endpoint.id)
        is_half = status.circuit.state is CircuitState.HALF_OPEN
        return is_half and self._probes.get(endpoint.id) == status.version

    def version(self, endpoint: EndpointSnapshot) -> int:
        """Under which version of the circuit the next call is meant."""
        return self._look(endpoint.id).version

    def is_free(self, endpoint: EndpointSnapshot) -> bool:
        """Return whether a failed probe is held against the endpoint alone."""
        return not circuit.spends(self._look(endpoint.id).circuit)

    def heard(
        self, endpoint: EndpointSnapshot, answer: Answer, *, is_probe: bool, counts: bool
    ) -> None:
        """Hear what an answer says of the endpoint. `counts`: its message failed the first time."""
        for _ in range(TRIES):
            status = self._look(endpoint.id)
            ours = is_probe and self.is_probing(endpoint)
            move = self._move(status, endpoint, answer, is_probe=ours, counts=counts)
            if move is None:
                return
            version = self.circuits.move(
                endpoint.id, status.version, move, answer.code, _told(answer)
            )
            self.forget(endpoint)
            if version is not None:
                return

    def give_back(self, endpoint: EndpointSnapshot) -> None:
        """The probe was taken and no call came of it: another may take it at once."""
        if self.is_probing(endpoint):
            status = self._look(endpoint.id)
            move = Move(circuit.Circuit(state=CircuitState.OPEN, probes=status.circuit.probes), 0.0)
            self.circuits.move(endpoint.id, status.version, move, "ENDPOINT_DOWN", status.text)
            self.forget(endpoint)

    def down(self, endpoint: EndpointSnapshot) -> StateChange:
        """The state of a partition whose endpoint is down, as the circuit is now."""
        return self._down(endpoint, self._look(endpoint.id))

    @staticmethod
    def most_in_a_call(endpoint: EndpointSnapshot, at_once: int) -> int:
        """Return how many messages a call may hold that could hold `at_once`."""
        rate = endpoint.rate_per_second
        return at_once if rate is None else min(at_once, circuit.most_together(rate))

    def wait_for_slot(self, endpoint: EndpointSnapshot, count: int) -> float:
        """Seconds until the endpoint's limit lets `count` messages through; 0: they are granted.

        They are granted together, however many: see `most_in_a_call`.
        """
        if endpoint.rate_per_second is None:
            return 0.0
        return self.circuits.slots(endpoint.id, count, endpoint.rate_per_second)

    def _move(
        self,
        status: EndpointStatus,
        endpoint: EndpointSnapshot,
        answer: Answer,
        *,
        is_probe: bool,
        counts: bool,
    ) -> Move | None:
        match answer:
            case Accepted() | Refused():
                return circuit.after_success(status.circuit, is_probe=is_probe)
            case Unreachable():
                return circuit.after_unreachable(
                    status.circuit,
                    is_probe=is_probe,
                    asked_seconds=answer.after_seconds,
                    roll=self.roll(),
                )
            case _ if is_probe or counts:
                return circuit.after_failure(
                    status.circuit,
                    is_probe=is_probe,
                    open_after=endpoint.open_after,
                    roll=self.roll(),
                )
            case _:
                return None

    def _look(self, endpoint: int) -> EndpointStatus:
        now = self.monotonic()
        status = self._known.get(endpoint)
        if status is None or now - status[0] > LOOK_EVERY_SECONDS:
            status = self._known[endpoint] = (now, self.circuits.look(endpoint))
        return status[1]

    def forget(self, endpoint: EndpointSnapshot) -> None:
        """Forget what was believed and turned out wrong: look again before the next call."""
        self._known.pop(endpoint.id, None)

    def _down(
        self, endpoint: EndpointSnapshot, status: EndpointStatus, seconds: float | None = None
    ) -> StateChange:
        pause = seconds if seconds is not None else max(status.resume_seconds or 0.0, 0.0)
        if status.circuit.state is CircuitState.HALF_OPEN:
            # Its time is that of a probe that died; one that is answered ends much sooner.
            pause = min(pause, circuit.OTHERS_WAIT_SECONDS)
        why = f" {status.text}" if status.text else ""
        return StateChange(
            state=PartitionState.OUTAGE,
            code="ENDPOINT_DOWN",
            text=f"The endpoint {endpoint.name} does not take messages.{why}",
            resume_seconds=pause,
            probes=status.circuit.probes,
        )


def _told(answer: Answer) -> str:
    """What the endpoint's state says of an answer: the state is of no message, so nothing masks it.

    The text itself stands with the call, where the message's rules cover it.
    """
    if not answer.may_quote:
        return answer.text
    return f"A call ended with {answer.code}; the last answers tell more." if answer.code else ""


def _switched_off(endpoint: EndpointSnapshot, status: EndpointStatus) -> StateChange | None:
    if not status.system_enabled:
        text = f"The external system {endpoint.system} is switched off."
        return StateChange(state=PartitionState.WAITING, code="SYSTEM_DISABLED", text=text)
    if not status.enabled:
        text = f"The endpoint {endpoint.name} is switched off."
        return StateChange(state=PartitionState.WAITING, code="ENDPOINT_DISABLED", text=text)
    if status.paused_seconds is not None and status.paused_seconds > 0:
        return StateChange(
            state=PartitionState.OUTAGE,
            code="ENDPOINT_PAUSED",
            text=f"The endpoint {endpoint.name} is paused; it continues by itself.",
            resume_seconds=status.paused_seconds,
        )
    return None
