"""A person moves a position while a run holds the partition: the run takes it anew, from there."""

from collections.abc import Callable

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState, PartitionState
from tests.support.fake_world import FakeWorld, Script

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)
COUNT = 3


class Once(Script):
    """Somebody acts when the run reaches a step for the first time."""

    def __init__(self, when: Step, deed: Callable[[], object]) -> None:
        super().__init__()
        self.when = when
        self.deed = deed

    def step(self, step: Step) -> None:
        super().step(step)
        if step is self.when and self.steps.count(step) == 1:
            self.deed()


def attached() -> FakeWorld:
    """Two partitions with three messages each, and a run that stays for some seconds."""
    world = FakeWorld(partitions=2, stay_seconds=5.0)
    for partition in (0, 1):
        for _ in range(COUNT):
            world.send(partition=partition)
    return world


def test_a_partition_that_was_moved_in_mid_batch_is_read_by_the_same_run():
    world = attached()
    script = Once(Step.HANDLED, lambda: world.go_back(1))
    assert world.run(script).ending is RunEnding.DRAINED
    # What lies before the place it was moved to was undone with the batch.
    assert (world.effects(), world.effects(1)) == ([1, 2], [0, 1, 2])
    assert [world.place(partition).next_offset for partition in (0, 1)] == [COUNT, COUNT]


def test_a_partition_that_was_adopted_is_read_by_the_run_that_holds_it():
    world = attached()
    world.place().state, world.place().state_code = PartitionState.BLOCKED, "TOPIC_TRUNCATED"
    script = Once(Step.COMMITTED, world.go_back)
    assert world.run(script).ending is RunEnding.DRAINED
    assert (world.effects(), world.effects(1)) == ([0, 1, 2], [0, 1, 2])


def test_the_lowest_end_of_a_topic_is_noted_though_it_was_blocked_before():
    """By a release that did not note it, or for an end that was higher."""
    world = FakeWorld()
    for _ in range(COUNT):
        world.send()
    world.run()
    world.place().state, world.place().state_code = PartitionState.BLOCKED, "TOPIC_TRUNCATED"
    part = world.topic.partitions[0]
    for end in (2, 1):
        part.records = {at: record for at, record in part.records.items() if at < end}
        part.end = end
        world.run()
        assert world.place().lost_from == end
    world.send()
    world.run()
    assert world.place().lost_from == 1


@pytest.mark.parametrize("code", ["TOPIC_TRUNCATED", "TOPIC_GONE"])
@pytest.mark.parametrize("on_gap", ["block", "advance"])
def test_a_topic_that_was_cut_waits_for_a_person_though_it_has_expired_past_the_position(
    code: str, on_gap: str
):
    """Others had offsets that were read: as a gap alone, nobody would hear of them."""
    world = FakeWorld(on_gap=on_gap)
    for _ in range(COUNT):
        world.send()
    world.run()
    part = world.topic.partitions[0]
    part.records, part.end = {}, 1
    world.run()
    world.place().state_code = code
    for _ in range(COUNT + 1):
        world.send()
    world.topic.expire(COUNT + 1)
    world.run()
    place = world.place()
    assert (place.state, place.state_code) == (PartitionState.BLOCKED, "TOPIC_TRUNCATED")
    assert (place.next_offset, place.lost_from, world.database.gaps) == (COUNT, 1, [])


def test_a_head_that_is_parked_when_it_has_expired_keeps_its_key():
    world = FakeWorld(sequential=True, retry=ONCE, on_head_expired="wait")
    world.send("permanent", key=b"a")
    world.run()
    world.send(key=b"a")
    world.send(key=b"b")
    world.topic.expire(1)
    world.run(Once(Step.TAKEN, lambda: world.person("park", world.row(0).id)))
    assert (world.row(0).parked, world.effects()) == (True, [2])
    assert world.row(1).state is ErrorState.PARKED
