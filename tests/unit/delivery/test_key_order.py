"""Order within a key over the fakes: what a person does between two effects of a run."""

import pytest

from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState
from tests.support.fake_world import FakeWorld, Script

pytestmark = pytest.mark.fast


@pytest.fixture
def world() -> FakeWorld:
    world = FakeWorld(keeps_keys_in_order=True, retry=RetryPolicy(max_retries=0))
    world.send("permanent", key=b"a")
    world.send(key=b"a")
    world.send(key=b"a")
    world.run()
    return world


def states(world: FakeWorld) -> list[ErrorState]:
    return [world.row(offset).state for offset in range(3)]


def repair(world: FakeWorld) -> None:
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)


@pytest.mark.parametrize("verb", ["hold", "delete"])
def test_what_was_read_behind_a_failure_that_a_person_moves_then_is_not_tried(world, verb):
    repair(world)

    def move(step: Step) -> None:
        if step is Step.BEGUN and world.row(0).state is ErrorState.READY:
            world.person(verb, world.row(0).id)

    script = Script()
    step = script.step
    script.step = lambda reached: (step(reached), move(reached))[0]
    world.run(script)
    held = verb == "hold"
    assert world.effects() == ([] if held else [1, 2])
    assert states(world)[0] is (ErrorState.HOLD if held else ErrorState.DELETED)


def test_a_released_failure_and_all_behind_it_are_one_batch(world):
    repair(world)
    script = Script()
    world.run(script)
    assert world.effects() == [0, 1, 2]
    assert script.steps.count(Step.COMMITTED) == 1


def test_parking_is_no_try_and_no_failure_of_the_queue(world):
    assert states(world) == [ErrorState.HOLD, ErrorState.PARKED, ErrorState.PARKED]
    assert [(world.row(at).attempts, world.row(at).spent) for at in (1, 2)] == [(0, 0), (0, 0)]
