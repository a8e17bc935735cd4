"""Order within a key over the fakes: what a person does between two effects of a run."""

import pytest

from integration.delivery.batch_result import Applied
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState
from integration.values import content_hash
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


def test_what_lies_before_a_failure_is_applied_when_it_is_read_again(world):
    before = world.send(key=b"c")
    held = world.send("permanent", key=b"c")
    world.run()
    world.go_back(before)
    world.send(key=b"c")
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == [before, before]
    assert world.row(held).state is ErrorState.HOLD
    assert world.row(held + 1).state is ErrorState.PARKED


def test_what_fails_when_it_is_read_again_is_applied_before_what_failed_behind_it():
    world = FakeWorld(keeps_keys_in_order=True, retry=RetryPolicy(max_retries=0))
    for do in ("ok", "permanent", "ok"):
        world.send(do, key=b"a")
    world.run()
    world.go_back()
    world.switch("SERVICE_DISABLED")
    world.run()
    world.switch(None)
    assert states(world) == [ErrorState.HOLD, ErrorState.HOLD, ErrorState.PARKED]
    world.person("edit", world.row(1).id)
    world.person("release", world.row(1).id)
    world.run()
    assert (world.effects(), states(world)[1]) == ([0], ErrorState.PARKED)
    world.person("release", world.row(0).id)
    world.run()
    assert world.effects() == [0, 0, 1, 2]


def test_a_repeat_that_was_parked_in_a_try_that_failed_is_a_repeat_in_the_next():
    """Meanwhile its key was free again, and another partition had applied the same message."""
    world = FakeWorld(keeps_keys_in_order=True, dedupe=True, retry=RetryPolicy(max_retries=0))
    world.send("permanent", key=b"a")
    world.run()
    repeat = world.send(key=b"a", id="twice")
    world.send("permanent", key=b"b")

    def undone(step: Step) -> None:
        if step is Step.UNDONE and world.row(0).state is ErrorState.HOLD:
            world.person("delete", world.row(0).id)
            value = world.topic.partitions[0].records[repeat].value
            world.database.seen["twice"] = Applied(content_hash(value), "", 1, 0)

    script = Script()
    step = script.step
    script.step = lambda reached: (step(reached), undone(reached))[0]
    world.run(script)
    assert Step.UNDONE in script.steps
    assert world.effects() == []
    assert [t.ended for t in world.database.tracks if t.offset == repeat] == ["DUPLICATE"]
