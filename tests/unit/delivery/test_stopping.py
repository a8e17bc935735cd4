"""A queue that is told to stop at an offset, on the in-memory fakes: exactly there, whatever is."""

import pytest

from integration.delivery.owned import Owned
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.policy.retry import RetryPolicy
from integration.policy.states import ErrorState
from tests.support.fake_world import Died, FakeWorld, Script
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast

ONCE = RetryPolicy(max_retries=0)
KINDS = pytest.mark.parametrize(
    "fields",
    [
        {"sequential": True},
        {"sequential": False},
        {"keeps_keys_in_order": True},
    ],
    ids=["sequential", "continuous", "keyed"],
)


def a_world(count: int = 10, **fields) -> FakeWorld:
    world = FakeWorld(batch_size=4, **fields)
    for n in range(count):
        world.send(key=f"k{n % 3}".encode())
    return world


@KINDS
def test_it_goes_exactly_up_to_the_stop_and_is_paused(fields):
    world = a_world(**fields)
    assert world.stop_at(6)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(), world.place().next_offset) == (list(range(6)), 6)
    assert world.database.queue.paused
    world.go_on()
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == list(range(10))


@KINDS
@pytest.mark.parametrize("stop", [0, 3, 4, 6, 10])
def test_a_stop_that_is_set_at_any_step_is_kept(fields, stop):
    """Set while a batch is in work, also one that straddles it; refused where it is too late."""
    for at in range(1, 40):
        world, was_set = a_world(**fields), []
        script = Script(
            at, lambda _, world=world, was_set=was_set: was_set.append(world.stop_at(stop))
        )
        world.run(script)
        world.run()
        end = stop if was_set == [True] else 10
        assert world.effects() == list(range(end)), f"at step {at}"
        assert world.place().next_offset == end
        assert world.database.queue.paused == (was_set == [True])
        if not was_set:
            break


class Unstopped(MemoryDatabase):
    """A database whose commits do not look at stops."""

    def keeps_stop(self, owned: Owned, next_offset: int) -> bool:
        return self.stands_at(owned)


def test_without_the_fence_a_batch_in_work_goes_beyond_the_stop():
    """Whatever the run has read of stops before: the commit itself has to look."""
    beyond = 0
    for at in range(1, 40):
        world = a_world(tables=Unstopped)
        world.run(Script(at, lambda _, world=world: world.stop_at(6)))
        stop = world.place().stop_at
        beyond += stop is not None and world.place().next_offset > stop
    assert beyond


def test_a_run_that_dies_is_followed_by_one_that_keeps_the_stop():
    for at in range(1, 30):
        world = a_world()
        world.stop_at(7)

        def die(step: Step) -> None:
            raise Died

        try:
            world.run(Script(at, die))
        except Died:
            world.free()
            world.run()
        assert (world.effects(), world.place().next_offset) == (list(range(7)), 7)
        assert world.database.queue.paused


def test_markers_before_the_stop_are_passed_up_to_it():
    world = a_world(3)
    for _ in range(3):
        world.topic.finish()
    world.send()
    world.stop_at(5)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(), world.place().next_offset) == ([0, 1, 2], 5)


def test_markers_at_the_end_are_passed_no_further_than_the_stop():
    world = a_world(3)
    for _ in range(3):
        world.topic.finish()
    world.stop_at(4)
    assert world.run().ending is RunEnding.STOPPED
    assert world.place().next_offset == 4


def test_a_stop_beyond_the_end_waits_for_what_comes():
    world = a_world(3)
    world.stop_at(5)
    assert world.run().ending is RunEnding.DRAINED
    assert not world.database.queue.paused
    for _ in range(4):
        world.send()
    assert world.run().ending is RunEnding.STOPPED
    assert world.effects() == [0, 1, 2, 3, 4]


def test_a_failing_head_before_the_stop_keeps_the_queue_from_it():
    world = FakeWorld(sequential=True, retry=ONCE)
    for do in ("ok", "permanent", "ok", "ok"):
        world.send(do)
    world.stop_at(3)
    assert world.run().ending is RunEnding.BLOCKED
    assert not world.database.queue.paused
    world.person("delete", world.row(1).id)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(), world.place().next_offset) == ([0, 2], 3)


def test_a_head_at_the_stop_is_not_tried():
    world = FakeWorld(sequential=True, retry=ONCE)
    for do in ("permanent", "ok"):
        world.send(do)
    world.run()
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    assert world.stop_at(0)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(), world.row(0).state) == ([], ErrorState.READY)
    world.go_on()
    world.run()
    assert world.effects() == [0, 1]


def test_the_queue_is_paused_when_the_last_of_its_stops_is_reached():
    world = FakeWorld(partitions=2, batch_size=2)
    for n in range(8):
        world.send(partition=n % 2)
    world.stop_at(1, partition=0)
    world.stop_at(3, partition=1)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(0), world.effects(1)) == ([0], [0, 1, 2])
    assert world.database.queue.paused


def test_a_partition_without_a_stop_goes_on_until_the_other_one_is_there():
    world = FakeWorld(partitions=2, batch_size=1)
    for n in range(8):
        world.send(partition=n % 2)
    world.stop_at(5, partition=0)
    assert world.run().ending is RunEnding.DRAINED
    assert (world.effects(1), world.database.queue.paused) == ([0, 1, 2, 3], False)
    for n in range(4):
        world.send(partition=n % 2)
    assert world.run().ending is RunEnding.STOPPED
    assert world.effects(0) == [0, 1, 2, 3, 4]


def test_a_run_whose_partitions_stand_at_their_stops_ends_and_leaves_the_pause_to_the_others():
    world = FakeWorld(partitions=2, batch_size=2)
    for n in range(8):
        world.send(partition=n % 2)
    world.stop_at(1, partition=0)
    world.stop_at(9, partition=1)
    world.place(1).owner = object()
    assert world.run().ending is RunEnding.DRAINED
    assert (world.effects(0), world.database.queue.paused) == ([0], False)


def test_released_failures_run_while_the_others_go_on():
    world = FakeWorld(retry=ONCE, partitions=2)
    world.send("permanent")
    world.run()
    world.person("edit", world.row(0).id)
    world.person("release", world.row(0).id)
    world.stop_at(1)
    world.stop_at(2, partition=1)
    for _ in range(3):
        world.send(partition=1)
    assert world.run().ending is RunEnding.STOPPED
    assert (world.effects(0), world.effects(1)) == ([0], [0, 1])


def test_another_selector_is_read_by_by_the_next_run():
    """Its source was attached with the former one."""
    world = FakeWorld(batch_size=1, is_jms=True, stay_seconds=60.0)
    for _ in range(40):
        world.send()
    report = world.run(Script(9, lambda _: world.configure(selector="site = 'BEDFORD'")))
    assert report.ending is RunEnding.STOPPED
    assert len(world.effects()) < 40
    world.configure(stay_seconds=0.0)
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == list(range(40))


def test_a_changed_provider_is_reached_by_the_next_run():
    """The clients of this one were made with the former address and login."""
    world = FakeWorld(batch_size=1, stay_seconds=60.0)
    for _ in range(40):
        world.send()
    report = world.run(Script(9, lambda _: world.configure(reached_by="another address")))
    assert report.ending is RunEnding.STOPPED
    assert len(world.effects()) < 40
    world.configure(stay_seconds=0.0)
    assert world.run().ending is RunEnding.DRAINED
    assert world.effects() == list(range(40))
