"""How an endpoint stands in words, and which problems that makes."""

from datetime import UTC, datetime, timedelta

import pytest

from integration.policy.states import CircuitState
from integration.selectors.delivering.standing import Circuit, Standing, Switches, moment, told

pytestmark = pytest.mark.fast
NOW = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
OPEN = Circuit(
    state=CircuitState.OPEN,
    opened_at=datetime(2026, 3, 1, 2, 10, tzinfo=UTC),
    resume_at=NOW + timedelta(seconds=2),
    text="connection refused.",
)


def test_down_is_told_with_cause_next_try_and_what_waits() -> None:
    found = told(OPEN, Switches(), 214, NOW)
    assert found.standing is Standing.DOWN
    assert found.why == (
        "Down since 02:10: connection refused. Next try in 2 s. 214 messages wait; no retry is "
        "spent."
    )
    assert found.standing.stops


@pytest.mark.parametrize(
    ("switches", "standing"),
    [
        (Switches(enabled=False), Standing.OFF),
        (Switches(system="plant", system_enabled=False), Standing.SYSTEM_OFF),
        (Switches(paused_until=NOW + timedelta(hours=1)), Standing.PAUSED),
        (Switches(paused_until=NOW - timedelta(seconds=1)), Standing.DOWN),
        (Switches(), Standing.DOWN),
    ],
)
def test_what_people_switched_comes_before_what_the_engine_found(switches, standing) -> None:
    assert told(OPEN, switches, 0, NOW).standing is standing


def test_a_closed_circuit_takes_messages_or_is_not_used() -> None:
    assert told(Circuit(), Switches(), 0, NOW).standing is Standing.UP
    assert told(Circuit(), Switches(is_used=False), 0, NOW).standing is Standing.UNUSED
    shaky = told(Circuit(failures=2, text="500"), Switches(), 0, NOW)
    assert shaky.why == "The last 2 calls in a row did not go through: 500. It is still called."
    assert not shaky.standing.stops


def test_nobody_looked_is_not_nothing_waits() -> None:
    assert "not known" in told(Circuit(), Switches(), None, NOW).why
    assert "Nothing waits" in told(Circuit(), Switches(), 0, NOW).why


def test_a_pause_that_was_asked_for_is_told_as_a_clock_time() -> None:
    later = Circuit(state=CircuitState.OPEN, opened_at=NOW, resume_at=NOW + timedelta(minutes=40))
    assert "Next try at 09:10, as it asked for." in told(later, Switches(), 1, NOW).why


def test_another_day_is_named() -> None:
    assert moment(NOW - timedelta(days=2), NOW) == "27 February 08:30"
