"""Partitions that are added while keys keep their order, over the fakes: when they are begun."""

from dataclasses import replace

import pytest

from integration.delivery.added import look
from integration.delivery.batch_result import RUNNING
from integration.delivery.steps import Step
from integration.kafka.errors import BrokerUnreachableError
from integration.policy.positions import PRODUCERS_KNOW_SECONDS
from integration.policy.states import ErrorState, PartitionState
from integration.values import Record
from tests.support.fake_world import FakeWorld, Script
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.repository import MemoryRepository
from tests.support.memory.source import MemoryPartition

pytestmark = pytest.mark.fast


@pytest.fixture
def world() -> FakeWorld:
    """One message is read, and then another partition was noticed."""
    world = FakeWorld(keeps_keys_in_order=True)
    world.send(key=b"k")
    world.run()
    world.topic.partitions[1] = MemoryPartition()
    world.run()
    return world


def standing(world: FakeWorld) -> tuple[PartitionState, str]:
    place = world.place(1)
    return place.state, place.state_code


WAITS = (PartitionState.WAITING, "KEYS_MOVED")


def test_what_a_producer_writes_that_does_not_know_it_yet_is_applied_first(world):
    """However late the old partition is: here a transaction holds it back."""
    world.run()
    assert standing(world) == WAITS
    world.topic.begin()
    old = world.send(key=b"k")
    world.send(key=b"k", partition=1)
    world.database.clock.advance(PRODUCERS_KNOW_SECONDS)
    told = world.place(1).state_text
    world.run()
    assert (world.effects(0), world.effects(1)) == ([0], [])
    assert (standing(world), world.place(1).begins_after) == (WAITS, {0: old + 1})
    assert world.place(1).state_text != told, "it waits for something else now"
    world.topic.finish()
    world.run()
    world.run()
    assert (world.effects(0), world.effects(1)) == ([0, old], [0])


def test_it_waits_for_producers_where_nothing_lags(world):
    world.send(key=b"k", partition=1)
    world.database.clock.advance(PRODUCERS_KNOW_SECONDS - 1)
    world.run()
    assert (standing(world), world.effects(1)) == (WAITS, [])
    world.database.clock.advance(1)
    world.run()
    assert world.effects(1) == [0]


def test_it_waits_on_as_long_as_nobody_can_say_where_the_others_end(world):
    def away() -> dict[int, int]:
        raise BrokerUnreachableError("main", "switched off")

    world.database.clock.advance(PRODUCERS_KNOW_SECONDS)
    _, added = MemoryPartitionManager(world.database).take()
    for ends in (away, dict, lambda: None):
        change = look(MemoryRepository(world.database), ends, added)
        assert change is not None
        assert (change.state, change.code) == WAITS
    assert look(MemoryRepository(world.database), lambda: {0: 1, 1: 0}, added) is RUNNING


def test_it_waits_for_nothing_that_another_has_lost_since_its_end_was_noted(world):
    world.topic.begin()
    world.send(key=b"k")
    world.send(key=b"k", partition=1)
    world.database.clock.advance(PRODUCERS_KNOW_SECONDS)
    world.run()
    log = world.topic.partitions[0]
    assert world.place(1).begins_after == {0: log.end}
    # Another leader took over, which never had that message.
    log.records.popitem()
    log.end, log.open_from = log.end - 1, None
    world.run()
    world.run()
    assert (world.effects(0), world.effects(1)) == ([0], [0])


def test_it_begins_at_once_where_no_key_keeps_its_order_any_more(world):
    world.send(key=b"k", partition=1)
    world.run()
    assert world.effects(1) == []
    world.configure(keeps_keys_in_order=False)
    world.run()
    assert world.effects(1) == [0]


def test_one_that_may_not_be_added_yet_is_added_by_a_later_look_of_the_same_run():
    """The topic had it before, and what had failed there is being tried."""
    world = FakeWorld(stay_seconds=10.0)
    world.send(do="permanent")
    world.run()
    held = world.row(0)
    left = replace(held, record=Record(1, 0, None, None, held.record.value, None))
    errors = world.database.errors

    def mark(_: Step) -> None:
        errors[left.id] = replace(left, state=ErrorState.PROCESSING, epoch=world.place().epoch)

    is_added = []

    def unmark(*, quiet_seconds: float = 0.0) -> None:
        is_added.append(1 in world.database.places)
        if len(is_added) == 3:
            errors[left.id] = left

    world.topic.partitions[1] = MemoryPartition()
    world.run(Script(1, mark), stop=unmark)
    assert not any(is_added[:3])
    assert is_added[-1]
