"""The contract of the Repository, in memory and on PostgreSQL: strict error queues."""

from uuid import UUID

import pytest

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import ClosedHead, CopiedHead, Owned
from integration.delivery.ports import Repository
from integration.policy.states import Ended, ErrorState
from integration.values import Outgoing
from tests.contract.repository_world import World
from tests.support.deliveries import a_change, a_new_error, blocked

RELEASED = {"state": ErrorState.READY}


class Queue:
    """One queue of a world with a run that holds its first partition."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.owned: Owned = world.manager().take()[0]
        self.repository: Repository = world.repository()

    def settle(self, batch_result: BatchResult) -> None:
        with self.repository.work(self.owned) as work:
            assert work.settle(batch_result)
        self.owned.next_offset = batch_result.next_offset

    def hold(self, *offsets: int, copied: bool = True) -> list[UUID]:
        """Held messages at these offsets, in one commit, copied to the error queue."""
        new = [a_new_error(at, ErrorState.HOLD) for at in offsets]
        copies = [self.copy(error.id) for error in new] if copied else []
        self.settle(BatchResult(offsets[-1] + 1, new_errors=new, outgoing=copies))
        return [error.id for error in new]

    def copy(self, error: UUID) -> Outgoing:
        provider = self.world.queue.provider_id
        return Outgoing(topic="e", value=b"{}", provider_id=provider, kind="MIRROR", error=error)

    def due(self) -> list[int]:
        return [row.offset for row in self.repository.due_rows(self.owned, 10)]

    def release(self, *errors: UUID) -> None:
        for error in errors:
            self.world.alter(error, **RELEASED)


@pytest.fixture
def strict(tables: World) -> Queue:
    return Queue(tables.strict_error_queue())


@pytest.fixture
def feeder(tables: World, strict: Queue) -> Queue:
    return Queue(tables)


def test_only_the_earliest_open_copied_row_is_due(feeder):
    first, second = feeder.hold(10, 11)
    feeder.release(second)
    assert feeder.due() == []
    feeder.release(first)
    assert feeder.due() == [10]
    for state in (ErrorState.HOLD, ErrorState.PROCESSING):
        feeder.world.alter(first, state=state)
        assert feeder.due() == []
    feeder.world.alter(first, state=ErrorState.DELETED)
    assert feeder.due() == [11]


def test_copies_of_one_commit_have_their_turn_in_arrival_order(feeder):
    errors = feeder.hold(*range(10, 30))
    feeder.release(*reversed(errors))
    for error, offset in zip(errors, range(10, 30), strict=True):
        assert feeder.due() == [offset]
        feeder.world.alter(error, state=ErrorState.RESOLVED)


def test_a_row_copied_later_waits_although_it_arrived_earlier(feeder):
    [early] = feeder.hold(10, copied=False)
    [first] = feeder.hold(11)
    feeder.world.later(1)
    feeder.release(early)
    [row] = feeder.repository.due_rows(feeder.owned, 10)
    change = a_change(row, ErrorState.HOLD)
    feeder.settle(BatchResult(12, changes=[change], outgoing=[feeder.copy(early)]))
    feeder.release(early, first)
    assert feeder.due() == [11]


def test_a_row_that_was_not_copied_waits_for_nobody(feeder):
    feeder.hold(10)
    [alone] = feeder.hold(11, copied=False)
    feeder.release(alone)
    assert feeder.due() == [11]


def test_the_order_goes_through_all_queues_that_feed_the_error_queue(strict, feeder):
    other = Queue(strict.world.feeding())
    [first] = feeder.hold(10)
    [second] = other.hold(10)
    other.release(second)
    assert other.due() == []
    feeder.world.alter(first, state=ErrorState.DELETED)
    assert other.due() == [10]


def test_a_copy_that_was_passed_gives_its_place_up_and_waits_for_nobody(strict, feeder):
    first, second, third = feeder.hold(10, 11, 12)
    feeder.world.link(first, 10)
    feeder.release(second)
    assert feeder.due() == []
    strict.world.put(next_offset=11)
    assert feeder.due() == [11]
    feeder.release(first, third)
    assert feeder.due() == [10, 11]


def test_a_failure_of_its_own_at_the_position_comes_first(strict, feeder):
    [first] = feeder.hold(10)
    feeder.release(first)
    [stranger] = strict.hold(10, copied=False)
    assert feeder.due() == [10]
    strict.world.put(next_offset=10)
    assert feeder.due() == []
    strict.world.alter(stranger, state=ErrorState.DELETED)
    assert feeder.due() == [10]


def test_open_copies_are_those_of_the_queues_that_feed_it(strict, feeder):
    first, second = feeder.hold(10, 11)
    feeder.world.alter(second, state=ErrorState.RESOLVED)
    [own] = strict.hold(10, copied=False)
    asked = [first, second, own, UUID(int=7)]
    assert strict.repository.open_copies(asked) == {first}


def test_a_position_blocked_at_a_copy_is_told_whose_it_is(strict, feeder):
    [first] = feeder.hold(10)
    at_copy = BatchResult(10, copies=[(first, 10)], state=blocked(first))
    strict.settle(at_copy)
    assert strict.repository.head(strict.owned) is None
    strict.owned.state_code = "HEAD_HELD"
    assert strict.repository.head(strict.owned) == CopiedHead(first)
    feeder.release(first)
    assert strict.repository.head(strict.owned) == CopiedHead(first)
    feeder.world.alter(first, state=ErrorState.RESOLVED, ended="APPLIED")
    assert strict.repository.head(strict.owned) == ClosedHead(first, Ended.APPLIED)
    strict.world.put(state_code="GAP", state="BLOCKED")
    strict.owned.state_code = "GAP"
    assert strict.repository.head(strict.owned) is None


def test_blocking_at_a_copy_links_it_in_the_same_commit(strict, feeder):
    first, second = feeder.hold(10, 11)
    strict.settle(BatchResult(10, copies=[(first, 10)], state=blocked(first)))
    strict.world.put(next_offset=11)
    feeder.release(first, second)
    assert feeder.due() == [10, 11]
    strict.world.put(next_offset=10)
    assert feeder.due() == [10]


def test_a_block_that_names_another_failure_of_its_own_is_no_copy(strict, feeder):
    [own] = strict.hold(10, copied=False)
    strict.settle(BatchResult(11, state=blocked(own)))
    strict.owned.state_code = "HEAD_HELD"
    assert strict.repository.head(strict.owned) is None
