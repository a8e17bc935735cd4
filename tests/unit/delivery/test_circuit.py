"""When an endpoint is left alone, when it is tried again, and what that costs its messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from integration.policy import circuit
from integration.policy.circuit import CLOSED, Circuit, Move
from integration.policy.states import CircuitState

pytestmark = pytest.mark.fast

OPEN = Circuit(state=CircuitState.OPEN, probes=2)
PROBING = Circuit(state=CircuitState.HALF_OPEN, probes=2)


def unreachable(known: Circuit, *, is_probe: bool = False, asked: float | None = None):
    return circuit.after_unreachable(known, is_probe=is_probe, asked_seconds=asked, roll=0.0)


def failed(known: Circuit, *, is_probe: bool = False):
    return circuit.after_failure(known, is_probe=is_probe, open_after=3, roll=0.0)


def test_one_that_cannot_be_reached_opens_it_and_later_ones_change_nothing():
    assert unreachable(CLOSED) == Move(Circuit(state=CircuitState.OPEN), 0.5)
    assert unreachable(OPEN) is None
    assert unreachable(PROBING) is None


def test_a_failed_probe_opens_it_again_for_longer_and_a_good_one_closes_it():
    assert unreachable(PROBING, is_probe=True) == Move(
        Circuit(state=CircuitState.OPEN, probes=3), 2.0
    )
    assert failed(PROBING, is_probe=True) == unreachable(PROBING, is_probe=True)
    assert circuit.after_success(PROBING, is_probe=True) == Move(CLOSED)


def test_only_the_probe_closes_it():
    assert circuit.after_success(OPEN, is_probe=False) is None
    assert circuit.after_success(PROBING, is_probe=False) is None


def test_failures_in_a_row_open_it_and_a_success_between_starts_anew():
    first = failed(CLOSED)
    assert first == Move(Circuit(failures=1))
    second = failed(first.circuit)
    assert failed(second.circuit).circuit.state is CircuitState.OPEN
    assert circuit.after_success(second.circuit, is_probe=False) == Move(CLOSED)
    assert circuit.after_success(CLOSED, is_probe=False) is None, "nothing to write"


@given(asked=st.none() | st.floats(0, 1e9), probes=st.integers(0, 100_000), roll=st.floats(0, 1))
def test_pauses_stay_short_unless_the_endpoint_asks_for_longer(asked, probes, roll):
    known = Circuit(state=CircuitState.HALF_OPEN, probes=probes)
    move = circuit.after_unreachable(known, is_probe=True, asked_seconds=asked, roll=roll)
    assert move is not None
    assert move.pause_seconds is not None
    assert move.pause_seconds <= max(3.0, min(asked or 0, 3_600))
    assert move.pause_seconds >= min(asked or 0, 3_600)


def test_of_an_hours_failed_probes_only_a_few_cost_a_retry():
    spent = [probes for probes in range(1_800) if circuit.spends(Circuit(probes=probes))]
    assert [probes + 1 for probes in spent] == [8, 16, 32, 64, 128, 256, 512, 1024]


def test_a_pause_between_probes_is_up_to_a_tenth_longer():
    assert [circuit.probe_pause_seconds(probes, 0.0) for probes in (0, 1, 2, 99)] == [0.5, 1, 2, 2]
    assert circuit.probe_pause_seconds(2, 0.5) == pytest.approx(2.1)
