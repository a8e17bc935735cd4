"""A run in group mode: it tries what its group assigned, and the locks decide as ever."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from integration.delivery.owned import Owned
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.values import Assignment
from tests.support.fake_world import FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager

pytestmark = pytest.mark.fast
EACH = 15


def a_world(*assigned: int, partitions: int = 4, **fields: Any) -> FakeWorld:
    known = {"workers": None, "batch_size": 1, "group": ("classic", "")}
    world = FakeWorld(partitions=partitions, **(known | fields))
    for number in range(partitions * EACH):
        world.send(partition=number % partitions)
    assign(world, *assigned)
    return world


def assign(world: FakeWorld, *partitions: int, member: str = "m") -> None:
    world.topic.assigned = Assignment(member, frozenset(partitions))


def manager_of(world: FakeWorld) -> MemoryPartitionManager:
    return MemoryPartitionManager(world.database, world.database.queue.workers)


class Watched(MemoryPartitionManager):
    """Notes what it gives up, and does something then."""

    def __init__(self, world: FakeWorld, then: Callable[[], object] = lambda: None) -> None:
        super().__init__(world.database, world.database.queue.workers)
        self.given: list[int] = []
        self.then = then

    def give_up(self, surplus: Sequence[Owned]) -> None:
        super().give_up(surplus)
        self.given += sorted(owned.partition for owned in surplus)
        self.then()


def through(world: FakeWorld) -> list[int]:
    return [
        partition for partition in world.database.places if len(world.effects(partition)) == EACH
    ]


def every_one_once(world: FakeWorld) -> bool:
    return all(world.effects(p) == list(range(EACH)) for p in world.database.places)


def test_a_member_works_on_what_it_was_assigned_and_on_nothing_else():
    world = a_world(1, 3)
    assert world.run(manager=manager_of(world)).ending is RunEnding.DRAINED
    assert through(world) == [1, 3]
    assign(world, 0, 2)
    world.run(manager=manager_of(world))
    assert every_one_once(world)


def test_what_is_revoked_is_given_up_between_two_batches_and_taken_again_once_assigned():
    world = a_world(0, 1, 2, 3)
    manager = Watched(world, lambda: assign(world, 0, 1, 2, 3))
    report = world.run(Script(9, lambda _: assign(world, 0, 3)), manager)
    assert report.ending is RunEnding.DRAINED
    assert manager.given == [1, 2]
    assert every_one_once(world)
    assert all(place.released for place in world.database.places.values())


def test_what_is_assigned_to_two_is_worked_on_by_whoever_holds_the_lock():
    world = a_world(0, 1, 2, 3)
    other = manager_of(world)
    [_, *others] = other.take(lambda: Assignment("other", frozenset({2, 3})))
    assert others
    world.run(manager=manager_of(world))
    assert through(world) == [0, 1]
    other.close(clean=True)
    world.run(manager=manager_of(world))
    assert every_one_once(world)


def test_who_lost_everything_ends_and_leaves_the_rest_to_others():
    world = a_world(0, 1, 2, 3)
    manager = Watched(world)
    assert world.run(Script(9, lambda _: assign(world)), manager).ending is RunEnding.DRAINED
    assert manager.given == [0, 1, 2, 3]
    assert not every_one_once(world)
    assign(world, 0, 1, 2, 3)
    world.run(manager=manager_of(world))
    assert every_one_once(world)


@pytest.mark.parametrize("stays", [True, False])
def test_a_run_too_many_gives_everything_up_unless_the_other_one_goes(stays):
    world = a_world(0, 1, 2, 3, workers=1, stay_seconds=8.0)
    manager, other = Watched(world), manager_of(world)

    class Visit(Script):
        def step(self, step: Step) -> None:
            super().step(step)
            if len(self.steps) == 30 and not stays:
                world.database.runs.remove(other)

    world.run(Visit(9, lambda _: world.database.runs.insert(0, other)), manager)
    assert manager.given == ([0, 1, 2, 3] if stays else [])


def test_who_was_lost_and_comes_back_as_another_member_takes_everything_anew():
    world = a_world(0, 1)
    manager = Watched(world)
    world.run(Script(9, lambda _: assign(world, 0, 1, member="another")), manager)
    assert manager.given == [0, 1]
    assert [world.database.places[p].epoch for p in (0, 1)] == [2, 2]
    assert through(world) == [0, 1]


@pytest.mark.parametrize("assigned", [(0,), ()])
def test_a_sequential_queue_has_its_partition_only_while_it_is_assigned(assigned):
    world = a_world(0, partitions=1, sequential=True, workers=1)
    manager = Watched(world)
    world.run(Script(9, lambda _: assign(world, *assigned)), manager)
    assert (manager.given, every_one_once(world)) == (([], True) if assigned else ([0], False))


def test_a_group_that_refuses_is_an_outage_and_nothing_is_read():
    world = a_world(partitions=1)
    world.topic.group_refuses = "GROUP_AUTHORIZATION_FAILED"
    assert world.run(manager=manager_of(world)).ending is RunEnding.OUTAGE
    place = world.place()
    assert (place.state, place.state_code, place.next_offset) == ("OUTAGE", "KAFKA_GROUP", 0)
    assert world.effects() == []
    world.topic.group_refuses = ""
    assign(world, 0)
    world.database.clock.seconds += 3_600
    world.run(manager=manager_of(world))
    assert every_one_once(world)


def test_a_group_that_refuses_holds_up_no_released_failure():
    world = a_world(0, partitions=1)
    world.send("permanent")
    world.run(manager=manager_of(world))
    row = world.row(EACH)
    world.topic.group_refuses = "GROUP_AUTHORIZATION_FAILED"
    assert world.person("edit", row.id)
    assert world.person("release", row.id)
    world.run(manager=manager_of(world))
    assert world.row(EACH).state == "RESOLVED"


def test_another_group_is_joined_by_the_next_run():
    world = a_world(0, 1, 2, 3, stay_seconds=60.0)
    change = Script(9, lambda _: world.configure(group=("consumer", "")))
    report = world.run(change, manager_of(world))
    assert report.ending is RunEnding.STOPPED
    world.configure(stay_seconds=0.0)
    world.run(manager=manager_of(world))
    assert every_one_once(world)
