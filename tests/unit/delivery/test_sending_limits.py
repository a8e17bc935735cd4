"""What a run believes of the endpoints it calls, and how long it then waits."""

import pytest

from integration.delivery.sending.limits import Limits
from integration.delivery.snapshot import EndpointSnapshot
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
