"""What a run tells the source of its positions at its end: lag tools and a restore go by it."""

import pytest

from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from tests.support.fake_world import FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager

pytestmark = pytest.mark.fast


class Once(Script):
    """Does something at the first step of this kind."""

    def __init__(self, when: Step, act) -> None:
        super().__init__()
        self.when, self.act_once = when, act

    def step(self, step: Step) -> None:
        super().step(step)
        if step is self.when and self.steps.count(step) == 1:
            self.act_once()


def a_world(count: int, **fields) -> FakeWorld:
    world = FakeWorld(batch_size=2, **fields)
    for _ in range(count):
        world.send()
    return world


def test_a_run_that_is_over_within_a_second_tells_how_far_it_came():
    world, script = a_world(3), Script()
    assert world.run(script).ending is RunEnding.DRAINED
    assert world.topic.committed == {0: 3}
    assert script.steps[-2:] == [Step.GROUP_COMMITTED, Step.RELEASED]


def test_so_does_one_that_gives_way_after_its_first_batch():
    world = a_world(6)
    assert world.run(stop=lambda **_: "told to").ending is RunEnding.STOPPED
    assert world.topic.committed == {0: world.place().next_offset}
    assert world.place().next_offset == 2


def test_where_nothing_has_moved_nothing_is_told():
    world, script = a_world(3), Script()
    world.run()
    world.topic.committed.clear()
    world.run(script)
    assert world.topic.committed == {}
    assert Step.GROUP_COMMITTED not in script.steps


def test_whoever_lost_its_partitions_tells_nothing():
    world = a_world(6)
    manager = MemoryPartitionManager(world.database)
    lose = Once(Step.COMMITTED, lambda: setattr(manager, "lost", True))
    assert world.run(lose, manager).ending is RunEnding.LOST
    assert world.topic.committed == {}


def test_a_broker_that_is_away_is_told_by_the_next_run():
    world = a_world(2, stay_seconds=0.5)
    away = Once(Step.COMMITTED, lambda: setattr(world.topic, "reachable", False))
    assert world.run(away).ending is RunEnding.OUTAGE
    assert (world.place().next_offset, world.topic.committed) == (2, {})
    world.topic.reachable = True
    world.database.clock.advance(100)
    world.run()
    assert world.topic.committed == {0: 2}
