"""How an endpoint stands in words, and which problems that makes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from integration.models import Endpoint, EndpointCircuit, ExternalSystem
from integration.policy.states import CircuitState
from integration.selectors.delivering.standing import Judgement, Standing, judge, moment

pytestmark = pytest.mark.fast
NOW = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
CLOSED = EndpointCircuit()
OPEN = EndpointCircuit(
    state=CircuitState.OPEN,
    opened_at=datetime(2026, 3, 1, 2, 10, tzinfo=UTC),
    resume_at=NOW + timedelta(seconds=2),
    text="connection refused.",
)


def an_endpoint(system: dict[str, Any] | None = None, **fields: Any) -> Endpoint:
    return Endpoint(name="supplier", system=ExternalSystem(**system or {}), **fields)


def judged(
    circuit: EndpointCircuit,
    waiting: int | None = 0,
    *,
    endpoint: Endpoint | None = None,
    is_used: bool = True,
) -> Judgement:
    return judge(endpoint or an_endpoint(), circuit, waiting, is_used=is_used, now=NOW)


def test_down_is_told_with_cause_next_try_and_what_waits() -> None:
    standing, situation = judged(OPEN, 214)
    assert standing is Standing.DOWN
    assert situation.why == (
        "Down since 02:10: connection refused. Next try in 2 s. 214 messages wait; no retry is "
        "spent."
    )
    assert standing.stops


@pytest.mark.parametrize(
    ("endpoint", "standing"),
    [
        (an_endpoint(enabled=False), Standing.OFF),
        (an_endpoint({"name": "plant", "enabled": False}), Standing.SYSTEM_OFF),
        (an_endpoint(paused_until=NOW + timedelta(hours=1)), Standing.PAUSED),
        (an_endpoint(paused_until=NOW - timedelta(seconds=1)), Standing.DOWN),
        (an_endpoint(), Standing.DOWN),
    ],
)
def test_what_people_switched_comes_before_what_the_engine_found(endpoint, standing) -> None:
    assert judged(OPEN, endpoint=endpoint)[0] is standing


def test_a_closed_circuit_takes_messages_or_is_not_used() -> None:
    assert judged(CLOSED)[0] is Standing.UP
    assert judged(CLOSED, is_used=False)[0] is Standing.UNUSED
    standing, situation = judged(EndpointCircuit(failures=2, text="500"))
    assert situation.why == "The last 2 calls in a row did not go through: 500. It is still called."
    assert not standing.stops


def test_nobody_looked_is_not_nothing_waits() -> None:
    assert "not known" in judged(CLOSED, None)[1].why
    assert "Nothing waits" in judged(CLOSED)[1].why


def test_a_pause_that_was_asked_for_is_told_as_a_clock_time() -> None:
    until = NOW + timedelta(minutes=40)
    later = EndpointCircuit(state=CircuitState.OPEN, opened_at=NOW, resume_at=until)
    assert "Next try at 09:10, as it asked for." in judged(later, 1)[1].why


def test_another_day_is_named() -> None:
    assert moment(NOW - timedelta(days=2), NOW) == "27 February 08:30"
