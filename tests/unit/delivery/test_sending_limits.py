"""What a run believes of the endpoints it calls, and how long it then waits."""

from dataclasses import replace

import pytest

from integration.delivery.sending.limits import Limits
from integration.delivery.snapshot import EndpointSnapshot
from integration.endpoints.port import Answer, Later, Unreachable
from integration.policy.circuit import OTHERS_WAIT_SECONDS, Circuit
from integration.policy.states import CircuitState
from tests.support.memory.clock import MemoryClock
from tests.support.memory.sending import MemoryCircuits

pytestmark = pytest.mark.fast

SUPPLIER = EndpointSnapshot(id=7, name="supplier", system="erp")


@pytest.mark.parametrize(
    ("state", "seconds", "waits"),
    [
        (CircuitState.HALF_OPEN, 61.0, OTHERS_WAIT_SECONDS),
        (CircuitState.HALF_OPEN, 0.5, 0.5),
        (CircuitState.OPEN, 1_800.0, 1_800.0),
    ],
)
def test_nobody_waits_as_long_as_a_probe_may_take(
    state: CircuitState, seconds: float, waits: float
) -> None:
    clock = MemoryClock()
    circuits = MemoryCircuits(clock)
    circuits.rows[SUPPLIER.id] = (Circuit(state=state), 3, clock.seconds + seconds)
    limits = Limits(circuits, lambda: clock.seconds, lambda: 0.0)
    assert limits.down(SUPPLIER).resume_seconds == pytest.approx(waits)


@pytest.mark.parametrize(
    ("answer", "is_told"),
    [
        (Unreachable(code="OUTAGE", text="No 4000-1234 today."), True),
        (Unreachable(code="OUTAGE", text="No 4000-1234 today.", may_quote=True), False),
        (Later(code="KEY_ERROR", text="No 4000-1234 today.", may_quote=True), False),
    ],
)
def test_the_state_of_an_endpoint_repeats_no_text_that_may_quote_a_message(
    answer: Answer, is_told: bool
) -> None:
    clock = MemoryClock()
    circuits = MemoryCircuits(clock)
    limits = Limits(circuits, lambda: clock.seconds, lambda: 0.0)
    endpoint = replace(SUPPLIER, open_after=1)
    limits.heard(endpoint, answer, is_probe=False, counts=True)
    down = limits.down(endpoint)
    for text in (circuits.texts[SUPPLIER.id], down.text):
        assert ("4000-1234" in text) is is_told
        assert answer.code in text or is_told
