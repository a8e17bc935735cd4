"""The state of endpoints: one contract for the in-memory fake and for PostgreSQL."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from integration.delivery.sending.ports import Circuits
from integration.models import Endpoint, EndpointCircuit
from integration.policy.circuit import CLOSED, Circuit, Move
from integration.policy.states import CircuitState
from integration.store.circuits import DatabaseCircuits
from tests.support.memory.clock import MemoryClock
from tests.support.memory.sending import MemoryCircuits
from tests.support.partners import an_endpoint

OPENED = Circuit(state=CircuitState.OPEN)
WHY = ("ENDPOINT_DOWN", "Refused.")


@dataclass
class World:
    circuits: Circuits
    endpoint: int
    pass_pause: Callable[[], object]
    switch_off: Callable[[], object]


@pytest.fixture(
    params=[
        pytest.param("memory", marks=pytest.mark.fast),
        pytest.param("database", marks=[pytest.mark.servers, pytest.mark.django_db]),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    if request.param == "memory":
        clock = MemoryClock()
        known = MemoryCircuits(clock)
        yield World(known, 7, lambda: clock.advance(3_600), lambda: known.switched_off.add(7))
        return
    request.getfixturevalue("db")
    endpoint = an_endpoint()
    yield World(
        DatabaseCircuits(),
        endpoint.pk,
        lambda: EndpointCircuit.objects.update(resume_at="2020-01-01T00:00:00Z"),
        lambda: Endpoint.objects.update(enabled=False),
    )


def opened(world: World, seconds: float = 60.0) -> int:
    version = world.circuits.look(world.endpoint).version
    made = world.circuits.move(world.endpoint, version, Move(OPENED, seconds), *WHY)
    assert made is not None
    return made


def test_an_endpoint_nobody_has_called_is_closed(world):
    status = world.circuits.look(world.endpoint)
    assert (status.circuit, status.enabled, status.system_enabled) == (CLOSED, True, True)
    assert status.paused_seconds is None


def test_of_two_who_move_it_one_is_told(world):
    version = world.circuits.look(world.endpoint).version
    assert world.circuits.move(world.endpoint, version, Move(OPENED, 1.0), *WHY) is not None
    assert world.circuits.move(world.endpoint, version, Move(CLOSED), *WHY) is None
    assert world.circuits.look(world.endpoint).circuit.state is CircuitState.OPEN


def test_nobody_probes_before_the_pause_is_over_and_then_exactly_one(world):
    version = opened(world)
    assert 50 < (world.circuits.look(world.endpoint).resume_seconds or 0) <= 60
    assert world.circuits.probe(world.endpoint, version, 30) is None
    world.pass_pause()
    probing = world.circuits.probe(world.endpoint, version, 30)
    assert probing is not None
    assert world.circuits.probe(world.endpoint, version, 30) is None
    assert world.circuits.probe(world.endpoint, probing, 30) is None, "it is under way"
    assert world.circuits.look(world.endpoint).circuit.state is CircuitState.HALF_OPEN


def test_a_probe_that_is_never_heard_of_may_be_taken_again(world):
    version = opened(world)
    world.pass_pause()
    probing = world.circuits.probe(world.endpoint, version, 30)
    assert probing is not None
    world.pass_pause()
    assert world.circuits.probe(world.endpoint, probing, 30) is not None


def test_a_closed_one_is_not_probed(world):
    version = world.circuits.look(world.endpoint).version
    assert world.circuits.probe(world.endpoint, version, 30) is None


def test_an_endpoint_that_is_switched_off_says_so(world):
    world.circuits.look(world.endpoint)
    world.switch_off()
    assert not world.circuits.look(world.endpoint).enabled


def test_slots_come_at_the_rate_and_not_ahead_of_it(world):
    world.circuits.look(world.endpoint)
    assert world.circuits.slots(world.endpoint, 1, 0.1) == 0
    assert 5 < world.circuits.slots(world.endpoint, 1, 0.1) <= 10


def test_a_slot_of_a_slower_rate_binds_nobody_once_the_rate_is_raised(world):
    world.circuits.look(world.endpoint)
    assert world.circuits.slots(world.endpoint, 1, 0.01) == 0
    assert 90 < world.circuits.slots(world.endpoint, 1, 0.01) <= 100
    assert world.circuits.slots(world.endpoint, 1, 0.1) == 0
    assert 5 < world.circuits.slots(world.endpoint, 1, 0.1) <= 10


@pytest.mark.parametrize("per_second", [20.0, 0.4])
def test_many_messages_take_as_many_slots_and_one_behind_them_waits(world, per_second):
    world.circuits.look(world.endpoint)
    most = max(1, int(per_second))
    assert world.circuits.slots(world.endpoint, most, per_second) == 0
    seconds = most / per_second
    for count in (1, most):
        left = world.circuits.slots(world.endpoint, count, per_second)
        assert 0.5 * seconds < left <= seconds
