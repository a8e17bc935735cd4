"""What a run takes and gives up while other runs of its queue come and go."""

from collections.abc import Sequence

import pytest

from integration.delivery.owned import Owned
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from tests.support.fake_world import FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager

pytestmark = pytest.mark.fast
MANY = 60


def a_world(*, partitions: int = 4, workers: int | None = None, messages: int = MANY) -> FakeWorld:
    world = FakeWorld(partitions=partitions, workers=workers, batch_size=1)
    for number in range(messages):
        world.send(partition=number % partitions)
    return world


def applied(world: FakeWorld) -> list[tuple[int, int]]:
    return sorted((e.partition, e.offset) for e in world.database.effects)


def everything(world: FakeWorld) -> list[tuple[int, int]]:
    logs = world.topic.partitions.items()
    return sorted((partition, offset) for partition, log in logs for offset in log.records)


class Watched(MemoryPartitionManager):
    """Notes what it was asked for; what it gives up another run works on at once."""

    def __init__(self, world: FakeWorld, other: MemoryPartitionManager | None = None) -> None:
        super().__init__(world.database, world.database.queue.workers)
        self.world, self.other = world, other
        self.given: list[int] = []
        self.gave_at: list[float] = []
        self.taken: list[int] = []
        self.wishes = 0

    def give_up(self, surplus: Sequence[Owned]) -> None:
        super().give_up(surplus)
        self.given += [owned.partition for owned in surplus]
        self.gave_at.append(self.world.clock)
        if self.other is not None:
            self.world.run(Script(), self.other)

    def take_more(self, count: int) -> list[Owned]:
        taken = super().take_more(count)
        self.taken += [owned.partition for owned in taken]
        return taken

    def ask_for_help(self) -> None:
        self.wishes += 1
        super().ask_for_help()


def test_a_run_gives_its_last_partitions_to_one_that_joins_and_takes_them_back_from_one_that_ends():
    world = a_world()
    other = MemoryPartitionManager(world.database, None)
    manager = Watched(world, other)
    report = world.run(Script(9, lambda _: world.database.runs.append(other)), manager)
    assert report.ending is RunEnding.DRAINED
    assert manager.given == [2, 3]
    assert manager.taken == [2, 3]
    assert applied(world) == everything(world)
    assert all(place.released for place in world.database.places.values())


def test_a_run_that_comes_late_to_a_busy_queue_is_given_its_share_within_a_second():
    world = a_world(messages=4 * MANY)
    manager, late = Watched(world), MemoryPartitionManager(world.database, None)
    joined_at: list[float] = []

    def joins(_: Step) -> None:
        world.database.runs.append(late)
        joined_at.append(world.clock)

    # In the middle of its work, long after the last look for its share.
    world.run(Script(200, joins), manager)
    assert manager.given == [2, 3]
    waited = manager.gave_at[0] - joined_at[0]
    assert 0 <= waited <= 1.0, "seconds by the engine's clock"


def test_a_run_too_many_gives_everything_up_and_ends():
    world = a_world()
    manager = Watched(world)

    def one_before(_: Step) -> None:
        world.database.runs.insert(0, object())
        world.configure(workers=1)

    assert world.run(Script(9, one_before), manager).ending is RunEnding.DRAINED
    assert sorted(manager.given) == [0, 1, 2, 3]
    assert len(applied(world)) < MANY


@pytest.mark.parametrize(
    ("partitions", "workers", "messages", "asks"),
    [(4, None, MANY, True), (4, 1, MANY, False), (1, None, MANY, False), (4, None, 4, False)],
    ids=["busy", "one worker", "one partition", "soon drained"],
)
def test_a_busy_run_asks_for_another_where_one_would_help(partitions, workers, messages, asks):
    world = a_world(partitions=partitions, workers=workers, messages=messages)
    manager = Watched(world)
    world.run(Script(), manager)
    assert (manager.wishes > 0) is asks
    assert applied(world) == everything(world)


def test_who_lost_its_session_learns_it_when_it_looks_for_its_share():
    world = a_world()
    manager = Watched(world)
    report = world.run(Script(9, lambda _: manager.steal()), manager)
    assert report.ending is RunEnding.LOST
