"""A sequential queue whose head was parked by a person: no later message of its key passes it."""

import pytest

from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import FakeWorld

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)


@pytest.fixture
def world() -> FakeWorld:
    """The first message of a key is parked; a later one has failed before any handler saw it."""
    world = FakeWorld(sequential=True, retry=ONCE)
    world.send("permanent", key=b"a")
    world.run()
    world.person("park", world.row(0).id)
    world.send(key=b"a", interface="NOWHERE")
    world.send(key=b"b")
    world.send(key=b"a")
    world.run()
    assert (world.row(1).state, world.place().state) == (ErrorState.HOLD, PartitionState.BLOCKED)
    services = world.database.queue.services
    world.configure(services={**services, "NOWHERE": services["ONE"]})
    return world


def test_a_head_that_is_released_does_not_pass_what_is_parked_of_its_key(world):
    assert world.person("release", world.row(1).id)
    world.run()
    assert world.effects() == [2]
    assert [world.row(offset).state for offset in (0, 1, 3)] == [
        ErrorState.HOLD,
        ErrorState.PARKED,
        ErrorState.PARKED,
    ]
    assert world.row(1).parked
    assert (world.place().next_offset, world.place().state) == (4, PartitionState.RUNNING)


def test_they_follow_in_order_once_it_is_corrected(world):
    world.person("release", world.row(1).id)
    world.run()
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    world.run()
    assert world.effects() == [2, 0, 1, 3]
