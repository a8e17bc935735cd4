"""The contract of the Repository, in memory and on PostgreSQL: the error table."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from integration.delivery.batch_result import BatchResult, Counters
from integration.delivery.owned import ClosedHead, Owned
from integration.delivery.ports import Repository
from integration.delivery.reading import RetryMarker
from integration.delivery.unit import OpenError
from integration.policy.states import Ended, ErrorState
from tests.support.deliveries import (
    a_batch_result,
    a_change,
    a_new_error,
    a_record,
    a_retry_marker,
    a_unit,
    settle,
)


def fail(
    repository: Repository, owned: Owned, offset: int, *, at: int | None = None, **fields
) -> UUID:
    """A first failure at `offset`; the position goes behind it, or to `at`."""
    new = a_new_error(offset, **fields)
    settle(repository, owned, BatchResult(offset + 1 if at is None else at, new_errors=[new]))
    return new.id


def due(repository: Repository, owned: Owned, limit: int = 10) -> list[int]:
    return [row.offset for row in repository.due_rows(owned, limit)]


def head(repository: Repository, owned: Owned) -> OpenError:
    found = repository.head(owned)
    assert isinstance(found, OpenError)
    return found


def test_a_row_comes_back_as_it_was_written(tables, owned):
    repository = tables.repository()
    record = a_record(10, b"\x00payload", key=b"k", headers=[("h", b"\xff"), ("n", None)])
    error = fail(repository, owned, 10, unit=a_unit(record=record), at=10)

    row = head(repository, owned)

    assert (row.id, row.version, row.state, row.code) == (error, 1, "RETRY", "BOOM")
    assert (row.attempts, row.retry_no, row.spent, row.crashes) == (1, 1, 1, 0)
    assert (row.record.partition, row.record.offset) == (0, 10)
    assert (row.record.key, row.record.value) == (b"k", b"\x00payload")
    assert list(row.record.headers or ()) == [("h", b"\xff"), ("n", None)]
    assert (row.arrival_index, row.message_id, row.interface) == (10, "id-10", "X")
    assert (row.due, row.late, row.copied) == (False, False, False)


def close(repository: Repository, owned: Owned, offset: int) -> None:
    """The failure at `offset` is applied, wherever the position is."""
    row = head(repository, replace(owned, next_offset=offset))
    settle(repository, owned, BatchResult(owned.next_offset, changes=[a_change(row)]))


def test_a_head_waits_until_its_time_and_is_the_row_at_the_position_alone(tables, owned):
    repository = tables.repository()
    fail(repository, owned, 10, at=10)
    assert not head(repository, owned).due
    tables.later(29)
    assert not head(repository, owned).due
    assert 0 < head(repository, owned).due_in_seconds <= 1
    tables.later(2)
    assert head(repository, owned).due
    assert -2 < head(repository, owned).due_in_seconds <= -1
    owned.next_offset = 11
    assert repository.head(owned) is None


@pytest.mark.parametrize("state", ["DELETED", "RESOLVED"])
def test_a_closed_head_tells_what_it_ended_in(tables, owned, state):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    ended = "DELETED" if state == "DELETED" else "SUPERSEDED"
    tables.alter(error, state=ErrorState(state), ended=ended)
    assert repository.head(owned) == ClosedHead(error, Ended(ended))


def test_a_row_that_was_closed_before_the_position_was_moved_is_no_head(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    settle(repository, owned, BatchResult(11, changes=[a_change(head(repository, owned))]))

    tables.move(10)

    owned.next_offset, owned.epoch = 10, tables.place().epoch
    assert repository.head(owned) is None
    # It fails anew, and what becomes of that tells.
    fail(repository, owned, 10, at=10)
    assert head(repository, owned).id == error
    settle(repository, owned, BatchResult(10, changes=[a_change(head(repository, owned))]))
    assert repository.head(owned) == ClosedHead(error, Ended.APPLIED)


def test_a_row_that_was_closed_where_no_position_had_come_stays_the_head(tables, owned):
    repository = tables.repository()
    settle(repository, owned, BatchResult(11))
    error = fail(repository, owned, 11, at=11, state=ErrorState.HOLD)
    settle(repository, owned, BatchResult(11, changes=[a_change(head(repository, owned))]))
    tables.move(10)
    tables.move(9)
    owned.next_offset, owned.epoch = 11, tables.place().epoch
    assert repository.head(owned) == ClosedHead(error, Ended.APPLIED)


def test_what_was_closed_between_two_moves_is_read_again_only_where_the_second_began_behind_it(
    tables, owned
):
    repository = tables.repository()
    for offset in (10, 12, 14):
        fail(repository, owned, offset)
    close(repository, owned, 14)
    settle(repository, owned, BatchResult(20))
    tables.move(5)
    owned.next_offset, owned.epoch = 5, tables.place().epoch
    settle(repository, owned, BatchResult(11))
    close(repository, owned, 10)
    close(repository, owned, 12)
    tables.move(9)
    owned.next_offset, owned.epoch = 9, tables.place().epoch
    assert repository.failed_between(owned, 9, 20) == {12: False}
    # Nor does it matter how often it is moved, as long as it comes past none of them.
    for offset in (7, 8, 8):
        tables.move(offset)
    owned.epoch = tables.place().epoch
    assert repository.failed_between(owned, 9, 20) == {12: False}
    tables.move(13)
    tables.move(6)
    owned.epoch = tables.place().epoch
    assert repository.failed_between(owned, 9, 20) == {}


def test_an_open_row_is_the_head_however_the_position_came_there(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, state=ErrorState.HOLD)
    tables.move(10)
    owned.next_offset, owned.epoch = 10, tables.place().epoch
    assert head(repository, owned).id == error
    settle(repository, owned, BatchResult(10, changes=[a_change(head(repository, owned))]))
    assert repository.head(owned) == ClosedHead(error, Ended.APPLIED)


def test_due_rows_are_released_ones_and_overdue_retries_in_arrival_order(tables, owned):
    repository = tables.repository()
    later = fail(repository, owned, 10)
    fail(repository, owned, 11, delay_seconds=0.0)
    released = fail(repository, owned, 12, state=ErrorState.HOLD)
    fail(repository, owned, 13, state=ErrorState.HOLD)
    gone = fail(repository, owned, 14, delay_seconds=0.0)
    tables.alter(gone, state=ErrorState.DELETED)
    assert due(repository, owned) == [11]
    tables.alter(released, state=ErrorState.READY, arrival=(0, 0))
    assert due(repository, owned) == [12, 11]
    tables.later(31)
    tables.alter(later, code="SEEN")
    assert due(repository, owned) == [12, 10, 11]
    assert due(repository, owned, limit=2) == [12, 10]


def test_a_retry_that_a_marker_carries_is_taken_from_the_row_after_a_grace(tables, owned):
    repository = tables.repository()
    fail(repository, owned, 10, carrier="topic", delay_seconds=5.0)
    tables.later(34)
    assert due(repository, owned) == []
    tables.later(2)
    assert due(repository, owned) == [10]


def test_a_sequential_queue_takes_only_rows_that_it_has_passed(tables, owned):
    tables.configure(sequential=True)
    repository = tables.repository()
    fail(repository, owned, 9, at=10, delay_seconds=0.0)
    fail(repository, owned, 10, at=10, delay_seconds=0.0)
    assert due(repository, owned) == [9]
    old = fail(repository, owned, 12, at=10, delay_seconds=0.0)
    tables.alter(old, topic_uuid="topic-before")
    assert due(repository, owned) == [9, 12]


def test_rows_of_a_partition_that_is_gone_belong_to_the_lowest(tables):
    lowest, other = tables.manager().take()
    repository = tables.repository()
    error = fail(repository, lowest, 10, delay_seconds=0.0)
    tables.alter(error, partition=7)
    assert (lowest.is_lowest, other.is_lowest) == (True, False)
    assert due(repository, lowest) == [10]
    assert due(repository, other) == []
    tables.alter(error, partition=1)
    assert (due(repository, lowest), due(repository, other)) == ([], [10])


def test_a_row_without_a_time_is_due(tables, owned):
    repository = tables.repository()
    fail(repository, owned, 10, at=10, state=ErrorState.HOLD)
    assert (head(repository, owned).due_in_seconds, head(repository, owned).due) == (0, True)


def test_failures_between_two_offsets_are_those_of_this_partition_and_topic(tables, owned):
    repository = tables.repository()
    for offset in (10, 12, 13, 14, 15):
        fail(repository, owned, offset)
    deleted, resolved = fail(repository, owned, 16), fail(repository, owned, 17)
    held = fail(repository, owned, 18, state=ErrorState.HOLD)
    ready = fail(repository, owned, 19, state=ErrorState.HOLD)
    elsewhere, before = fail(repository, owned, 20), fail(repository, owned, 21)
    tables.alter(deleted, state=ErrorState.DELETED)
    tables.alter(resolved, state=ErrorState.RESOLVED, ended="APPLIED")
    tables.alter(ready, state=ErrorState.READY)
    tables.alter(elsewhere, partition=1)
    tables.alter(before, topic_uuid="topic-before")
    open_ = dict.fromkeys((12, 13, 14, 15, 18, 19), True)
    closed = dict.fromkeys((16, 17), False)
    assert repository.failed_between(owned, 12, 30) == open_ | closed
    assert repository.failed_between(owned, 11, 13) == {12: True, 13: True}
    tables.alter(held, state=ErrorState.PROCESSING)
    assert repository.failed_between(owned, 18, 18) == {18: True}
    assert repository.failed_between(owned, 22, 30) == {}


def test_of_closed_rows_those_closed_since_the_move_tell_what_became_of_their_messages(
    tables, owned
):
    repository = tables.repository()
    for offset in (10, 11, 12):
        fail(repository, owned, offset)
    fail(repository, owned, 14, at=13)
    close(repository, owned, 10)
    close(repository, owned, 14)
    tables.move(10)
    owned.next_offset, owned.epoch = 10, tables.place().epoch
    close(repository, owned, 11)
    known = repository.failed_between(owned, 10, 20)
    assert known == {11: False, 12: True, 14: False}, "no position had come to the last one"


def test_a_retry_marker_finds_its_row_only_with_the_retry_number_that_is_due(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, carrier="topic")
    wrong = [
        RetryMarker(error, 0),
        RetryMarker(error, 2),
        RetryMarker(error, 2**31 - 1),
        RetryMarker(uuid4(), 1),
    ]
    assert dict(repository.retry_rows(wrong)) == {}
    found = repository.retry_rows([*wrong, RetryMarker(error, 1)])
    assert [row.offset for row in found.values()] == [10]
    tables.alter(error, state=ErrorState.HOLD)
    assert not repository.retry_rows([RetryMarker(error, 1)])


def test_claim_leaves_out_rows_that_moved_and_rows_that_are_gone(tables, owned):
    repository = tables.repository()
    stays, moved = fail(repository, owned, 10), fail(repository, owned, 11)
    tables.alter(moved, state=ErrorState.HOLD)
    with repository.work(owned) as work:
        claimed = work.claim([(stays, 1), (moved, 1), (uuid4(), 1)])
        work.abandon()
    assert claimed == {stays}


def test_a_change_counts_the_try_closes_the_row_and_cancels_its_retry_marker(tables, owned):
    repository = tables.repository()
    new = a_new_error(10, carrier="topic", delay_seconds=0.0)
    marker = a_retry_marker(new.id, provider_id=tables.queue.provider_id)
    settle(repository, owned, BatchResult(11, new_errors=[new], outgoing=[marker]))
    [row] = repository.retry_rows([RetryMarker(new.id, 1)]).values()

    settle(repository, owned, BatchResult(11, changes=[a_change(row)]))

    told = tables.row(new.id)
    assert (told.state, told.ended, told.attempts) == ("RESOLVED", "APPLIED", 2)
    assert told.version == 2
    assert tables.tries(new.id) == [(1, "RETRY"), (2, "APPLIED")]
    assert tables.outbox() == [("TICKET", "CANCELLED")]


def test_a_change_of_a_row_that_moved_writes_nothing(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    row = head(repository, owned)
    tables.alter(error, state=ErrorState.HOLD)
    settle(repository, owned, BatchResult(10, changes=[a_change(row)]))
    assert tables.row(error).state == "HOLD"
    assert tables.tries(error) == [(1, "RETRY")]


def test_a_failing_offset_with_a_closed_row_opens_that_row_again(tables, owned):
    """After a rewind: the story goes on in the row it began in."""
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    tables.alter(error, state=ErrorState.RESOLVED, ended="APPLIED")
    again = fail(repository, owned, 10, at=10, state=ErrorState.HOLD)
    row = tables.row(error)
    assert (row.state, row.attempts, row.ended, row.carrier) == ("HOLD", 2, "", "row")
    assert tables.tries(error) == [(1, "RETRY"), (2, "HOLD")]
    assert (tables.rows(), tables.tries(again)) == (1, [])


def test_the_number_that_a_try_as_the_newest_drew_stays_with_its_row(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    own = head(repository, owned).number
    tables.alter(error, apply_as_newest=True)
    row = head(repository, owned)
    assert (own is None, row.number) == (False, None)
    tried = replace(row, newest_batch=77, newest_index=3)
    # Behind an earlier one of its key it was not tried.
    settle(repository, owned, BatchResult(10, changes=[a_change(tried, ErrorState.PARKED)]))
    row = head(repository, owned)
    assert row.number is None
    tried = replace(row, newest_batch=78, newest_index=3)
    settle(repository, owned, BatchResult(10, changes=[a_change(tried, ErrorState.RETRY)]))
    row = head(repository, owned)
    # Among the failures of its key its place is the message's.
    assert (row.number, (row.arrival_batch, row.arrival_index)) == ((78, 3), own)
    settle(repository, owned, BatchResult(10, changes=[a_change(row)]))
    fail(repository, owned, 10, at=10)
    row = head(repository, owned)
    assert (row.number, row.newest_batch) == ((row.arrival_batch, 10), None)
    assert row.number != own


def test_what_was_decided_of_a_closed_row_does_not_hold_when_it_is_opened_again(tables, owned):
    """It failed anew, in its place of the log: nobody said that this try beats newer data."""
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    decided = {"apply_as_newest": True, "late": True, "crashes": 2}
    tables.alter(error, state=ErrorState.RESOLVED, ended="APPLIED", **decided)
    tables.later(1_000)
    fail(repository, owned, 10, at=10)
    row = head(repository, owned)
    assert (row.apply_as_newest, row.late, row.crashes) == (False, False, 0)
    assert row.since_first_seconds < 500


def test_the_time_of_retries_runs_from_the_first_failure_since_a_release(tables, owned):
    repository = tables.repository()

    def fails_after(seconds: float, counters: Counters) -> float:
        """Returns how old its next try takes its first failure to be."""
        tables.later(seconds)
        change = a_change(head(repository, owned), ErrorState.RETRY, counters=counters)
        settle(repository, owned, BatchResult(10, changes=[change]))
        return head(repository, owned).since_first_seconds

    error = fail(repository, owned, 10, at=10)
    assert fails_after(1_000, Counters(attempts=2, retry_no=2, spent=2)) >= 1_000
    tables.alter(error, state=ErrorState.READY, spent=0)
    assert fails_after(1_000, Counters(attempts=3, retry_no=3, spent=1)) < 500
    assert 600 <= fails_after(600, Counters(attempts=4, retry_no=4, spent=2)) < 1_100
    tables.alter(error, state=ErrorState.RESOLVED, ended="APPLIED")
    tables.later(1_000)
    fail(repository, owned, 10, at=10)
    assert head(repository, owned).since_first_seconds < 500


def test_a_failing_offset_with_an_open_row_leaves_that_row_alone(tables, owned):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    before = tables.row(error)
    fail(repository, owned, 10, at=10, state=ErrorState.HOLD)
    assert tables.row(error) == before
    assert tables.tries(error) == [(1, "RETRY")]


@pytest.mark.parametrize("passes", [False, True])
def test_an_expired_head_stays_open_and_is_held_where_it_is_passed(tables, owned, passes):
    repository = tables.repository()
    error = fail(repository, owned, 10, at=10)
    before = tables.row(error)
    for _ in range(2):
        assert repository.expire_head(owned, passes=passes)
    row = tables.row(error)
    assert row.expired
    assert row.state == ("HOLD" if passes else "RETRY")
    assert row.version == before.version + passes
    tables.alter(error, state=ErrorState.DELETED)
    assert not repository.expire_head(owned, passes=passes)
    owned.next_offset = 11
    assert not repository.expire_head(owned, passes=passes)


def test_a_position_without_a_row_is_settled_beside_the_rows(tables, owned):
    repository = tables.repository()
    fail(repository, owned, 10)
    settle(repository, owned, a_batch_result(12, 11))
    assert tables.tracks() == [(0, 11, "APPLIED")]
