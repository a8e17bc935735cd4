"""The contract of the Repository, in memory and on PostgreSQL: strict error queues."""

from uuid import UUID

import pytest

from integration.delivery.batch_result import BatchResult
from integration.delivery.owned import ClosedHead, CopiedHead, Owned
from integration.delivery.ports import Repository
from integration.delivery.reading import copy_headers
from integration.policy.states import Ended, ErrorState
from integration.values import Outgoing
from tests.contract.repository_world import World
from tests.support.deliveries import a_change, a_new_error, a_record, a_unit, blocked

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

    def hold(self, *offsets: int, copied: bool = True, key: bytes | None = None) -> list[UUID]:
        """Held messages at these offsets, in one commit, copied to the error queue."""
        units = [a_unit(record=a_record(at, key=key)) for at in offsets]
        new = [a_new_error(unit.at, ErrorState.HOLD, unit=unit) for unit in units]
        copies = [self.copy(error.id) for error in new] if copied else []
        self.settle(BatchResult(offsets[-1] + 1, new_errors=new, outgoing=copies))
        return [error.id for error in new]

    def copy(self, error: UUID) -> Outgoing:
        """As a run makes it."""
        return Outgoing(
            topic="e",
            value=b"{}",
            headers=copy_headers(a_record(), error, "test"),
            provider_id=self.world.queue.provider_id,
            kind="MIRROR",
            error=error,
        )

    def rewind(self, offset: int) -> None:
        """A person moves the position back, and a run goes on there."""
        self.world.put(next_offset=offset)
        self.owned.next_offset = offset

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


@pytest.fixture
def keyed(tables: World, strict: Queue) -> Queue:
    """A feeding queue that keeps the order of its keys."""
    tables.keep_keys_in_order()
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


def test_one_of_a_key_has_its_turn_before_those_that_arrived_after_it(keyed):
    """The earlier one was copied last: by key it comes first, and nobody waits for nobody."""
    [early] = keyed.hold(10, copied=False, key=b"k")
    [late] = keyed.hold(11, key=b"k")
    keyed.world.later(1)
    [other] = keyed.hold(12, key=b"o")
    keyed.world.later(1)
    keyed.release(early)
    [row] = keyed.repository.due_rows(keyed.owned, 10)
    change = a_change(row, ErrorState.HOLD)
    keyed.settle(BatchResult(13, changes=[change], outgoing=[keyed.copy(early)]))
    keyed.release(early, late, other)
    for error, offset in ((early, 10), (late, 11), (other, 12)):
        assert keyed.due() == [offset]
        keyed.world.alter(error, state=ErrorState.RESOLVED)


def test_one_that_was_not_copied_gives_those_of_its_key_their_turn(keyed):
    [early] = keyed.hold(10, copied=False, key=b"k")
    [late] = keyed.hold(11, key=b"k")
    keyed.world.later(1)
    [other] = keyed.hold(12, key=b"o")
    keyed.release(late, other)
    assert keyed.due() == []
    keyed.release(early)
    assert keyed.due() == [10]
    keyed.world.alter(early, state=ErrorState.RESOLVED)
    assert keyed.due() == [11]


def test_what_follows_one_of_its_key_waits_for_its_own_turn(keyed):
    [first] = keyed.hold(10, key=b"k")
    keyed.world.later(1)
    [between] = keyed.hold(11, key=b"o")
    keyed.world.later(1)
    [last] = keyed.hold(12, key=b"k")
    keyed.release(first, last)
    assert keyed.due() == [10]
    keyed.world.alter(first, state=ErrorState.RESOLVED)
    assert keyed.due() == []
    keyed.world.alter(between, state=ErrorState.DELETED)
    assert keyed.due() == [12]


def test_what_was_never_copied_follows_the_first_of_its_key_at_once(keyed):
    [first] = keyed.hold(10, key=b"k")
    units = [a_unit(record=a_record(at, key=b"k")) for at in (11, 12)]
    parked = [a_new_error(unit.at, ErrorState.PARKED, unit=unit) for unit in units]
    keyed.settle(BatchResult(13, new_errors=parked))
    keyed.release(first)
    assert keyed.due() == [10, 11, 12]


def test_a_failure_that_is_opened_again_is_copied_again_and_has_a_new_turn(strict, feeder):
    [first] = feeder.hold(10)
    feeder.world.link(first, 10)
    strict.world.put(next_offset=11)
    feeder.world.alter(first, state=ErrorState.RESOLVED, ended="APPLIED")
    feeder.world.later(1)
    [second] = feeder.hold(11)
    feeder.world.later(1)
    feeder.rewind(10)
    feeder.hold(10)
    assert feeder.world.copies() == [(error, str(error)) for error in (first, second, first)]
    feeder.release(first, second)
    assert feeder.due() == [11]
    feeder.world.alter(second, state=ErrorState.RESOLVED)
    assert feeder.due() == [10]


def test_a_failure_that_is_open_still_is_not_copied_again(feeder):
    [first] = feeder.hold(10)
    feeder.rewind(10)
    feeder.hold(10)
    assert feeder.world.copies() == [(first, str(first))]


def test_what_is_opened_again_is_not_copied_before_it_is_held_again(feeder):
    [first] = feeder.hold(10)
    feeder.world.alter(first, state=ErrorState.DELETED, ended="DELETED")
    feeder.rewind(10)
    feeder.settle(BatchResult(11, new_errors=[a_new_error(10, delay_seconds=0.0)]))
    [row] = feeder.repository.due_rows(feeder.owned, 10)
    assert (row.id, row.copied) == (first, False)
