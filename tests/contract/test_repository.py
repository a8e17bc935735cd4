"""The contract of Repository and UnitOfWork, in memory and on PostgreSQL: transactions."""

from dataclasses import replace

import pytest
from django.db import DatabaseError, IntegrityError, OperationalError

from integration.delivery.batch_result import RUNNING, Applied, BatchResult, StateChange
from integration.delivery.owned import Owned
from integration.delivery.ports import LostError, QueueGoneError, Repository
from integration.handlers.failures import classify
from integration.policy.failure import FailureClass
from integration.policy.states import ErrorState, PartitionState
from integration.values import TopicFacts
from tests.contract.repository_world import World
from tests.support.deliveries import (
    a_batch_result,
    a_change,
    a_new_error,
    a_retry_marker,
    a_track,
    a_unit,
    blocked,
)


def owned_by(tables: World, partition: int = 0) -> Owned:
    """A fresh owner of one partition; whoever had it before is fenced."""
    return next(owned for owned in tables.manager().take() if owned.partition == partition)


def settle(repository: Repository, owned: Owned, batch_result: BatchResult) -> bool:
    with repository.work(owned) as work:
        settled = work.settle(batch_result)
    if settled:
        owned.next_offset = batch_result.next_offset
    return settled


def settle_with_effect(
    tables: World, repository: Repository, owned: Owned, *, orphan: bool = False
) -> None:
    with repository.work(owned) as work:
        tables.effect(repository, 1, orphan=orphan)
        assert work.settle(a_batch_result(11, 10))


def everything(tables: World) -> BatchResult:
    """A batch result with one of each consequence."""
    new = a_new_error(11)
    return a_batch_result(
        13,
        10,
        12,
        new_errors=[new],
        outgoing=[a_retry_marker(new.id, provider_id=tables.queue.provider_id)],
        seen=[("id-10", Applied(b"hash", "uuid", 0, 10), True)],
        state=blocked(new.id),
        logged=(10, 12),
    )


def test_a_track_of_a_row_whose_partition_is_gone_tells_that_partition(tables):
    repository, owned = tables.repository(), owned_by(tables)
    stray = BatchResult(10, strays=[(7, a_track(4))])
    assert settle(repository, owned, stray)
    odd, empty = a_track(5, "HOLD", message_id="id\t5"), a_track(4, "HOLD", message_id="")
    mixed = a_batch_result(11, 10, strays=[(7, odd), (8, empty)])
    assert settle(repository, owned, mixed)
    assert sorted(tables.tracks()) == [
        (0, 10, "APPLIED"),
        (7, 4, "APPLIED"),
        (7, 5, "HOLD"),
        (8, 4, "HOLD"),
    ]


def test_a_queue_that_was_removed_is_told_and_nothing_is_written_for_it(tables):
    manager, repository = tables.manager(), tables.repository()
    owned = next(one for one in manager.take() if one.partition == 0)
    tables.remove_queue()
    facts = TopicFacts("topic-1", {0: 0, 1: 0, 2: 0}, {0: 20, 1: 20, 2: 0})
    repository.add_partitions(facts)
    assert not settle(repository, owned, a_batch_result(11, 10))
    assert not repository.state(owned, RUNNING)
    assert (repository.head(owned), repository.due_rows(owned, 10)) == (None, [])
    with pytest.raises(QueueGoneError, match="'q'"):
        repository.snapshot()
    manager.close(clean=True)
    assert tables.manager().take() == []


def test_a_settlement_is_there_as_a_whole_after_the_commit(tables):
    repository, owned = tables.repository(), owned_by(tables)
    batch_result = everything(tables)
    with repository.work(owned) as work:
        tables.effect(repository, 1)
        assert work.settle(batch_result)

    place = tables.place()
    assert (place.next_offset, place.state, place.state_code) == (13, "BLOCKED", "HEAD_HELD")
    assert tables.effects() == [1]
    assert tables.tracks() == [(0, 10, "APPLIED"), (0, 12, "APPLIED")]
    error = batch_result.new_errors[0].id
    assert tables.row(error).state == "RETRY"
    assert tables.tries(error) == [(1, "RETRY")]
    assert tables.outbox() == [("TICKET", "PENDING")]
    with repository.work(owned) as work:
        assert dict(work.seen(["id-10"])) == {"id-10": {b"hash"}}


@pytest.mark.parametrize("how", ["abandon", "exception", "not settled"])
def test_a_block_that_is_not_settled_leaves_nothing(tables, how):
    repository, owned = tables.repository(), owned_by(tables)

    def block() -> None:
        with repository.work(owned) as work:
            tables.effect(repository, 1)
            if how != "not settled":
                assert work.settle(everything(tables))
            if how == "abandon":
                work.abandon()
            if how == "exception":
                raise KeyError("a bug")

    if how == "exception":
        with pytest.raises(KeyError):
            block()
    else:
        block()

    assert (tables.effects(), tables.tracks(), tables.rows(), tables.outbox()) == ([], [], 0, [])
    assert tables.place().next_offset == 10
    assert tables.place().state == "RUNNING"


def test_an_old_epoch_changes_nothing_by_any_method(tables):
    """The fence: whatever a paused owner still tries to write, after another took over."""
    repository, manager = tables.repository(), tables.manager()
    old = manager.take()[0]
    row_error = a_new_error(10, delay_seconds=0.0)
    assert settle(repository, old, BatchResult(10, new_errors=[row_error]))
    row = repository.head(old)
    tables.die(manager)
    new = owned_by(tables)
    before, row_before = tables.place(), tables.row(row_error.id)

    with repository.work(old) as work:
        tables.effect(repository, 1)
        settled = work.settle(BatchResult(11, changes=[a_change(row)], state=blocked()))
    assert not settled
    assert not repository.mark(old, a_unit(10))
    assert not repository.mark(old, a_unit(10, row=row))
    assert not repository.state(old, blocked())
    assert not repository.state(old, RUNNING, 12)
    repository.unmark(old, a_unit(10, row=row))
    repository.gap(old, 20, "EXPIRED")
    repository.expire_head(old, passes=True)

    assert tables.place() == before
    assert tables.row(row_error.id) == row_before
    assert (tables.effects(), tables.tracks(), tables.gaps()) == ([], [], [])
    assert settle(repository, new, a_batch_result(11, 10))


def test_a_position_that_another_moved_fences_as_well(tables):
    repository, owned = tables.repository(), owned_by(tables)
    tables.put(next_offset=12)
    assert not settle(repository, owned, a_batch_result(11, 10))
    assert not repository.state(owned, RUNNING, 11)
    assert tables.place().next_offset == 12
    assert tables.tracks() == []


def test_undo_goes_back_to_the_savepoint_and_keep_moves_it(tables):
    repository, owned = tables.repository(), owned_by(tables)
    with repository.work(owned) as work:
        work.savepoint()
        tables.effect(repository, 1)
        work.keep()
        tables.effect(repository, 2)
        work.undo()
        tables.effect(repository, 3)
        work.undo()
        tables.effect(repository, 4)
        assert work.settle(a_batch_result(11, 10))
    assert tables.effects() == [1, 4]


def test_a_deferred_constraint_is_checked_where_its_message_is_known(tables):
    repository, owned = tables.repository(), owned_by(tables)
    with repository.work(owned) as work:
        work.savepoint()
        tables.effect(repository, 1)
        work.keep()
        tables.effect(repository, 2, orphan=True)
        with pytest.raises(IntegrityError):
            work.keep()
        work.undo()
        tables.effect(repository, 3)
        work.check()
        assert work.settle(a_batch_result(11, 10))
    assert tables.effects() == [1, 3]


def test_a_deferred_constraint_that_nobody_checked_refuses_the_commit(tables):
    repository, owned = tables.repository(), owned_by(tables)
    with pytest.raises(IntegrityError):
        settle_with_effect(tables, repository, owned, orphan=True)
    assert (tables.effects(), tables.place().next_offset) == ([], 10)


def test_a_swallowed_error_is_seen_and_undone(tables):
    repository, owned = tables.repository(), owned_by(tables)
    with repository.work(owned) as work:
        work.savepoint()
        assert not work.is_broken()
        with pytest.raises(DatabaseError):
            tables.refuse(repository)
        assert work.is_broken()
        work.undo()
        assert not work.is_broken()
        tables.effect(repository, 1)
        assert work.settle(a_batch_result(11, 10))
    assert tables.effects() == [1]


def test_arrival_numbers_grow_and_are_never_given_twice(tables):
    repository, owned = tables.repository(), owned_by(tables)
    numbers = []
    for _ in range(3):
        with repository.work(owned) as work:
            numbers.append(work.arrival)
            work.abandon()
    assert numbers == sorted(set(numbers))


def test_a_commit_whose_answer_is_lost_counts_when_it_happened(tables):
    repository, owned = tables.repository(), owned_by(tables)
    tables.break_commit(repository, happened=True)
    settle_with_effect(tables, repository, owned)
    assert (tables.effects(), tables.place().next_offset) == ([1], 11)


def test_a_commit_that_did_not_happen_is_told_as_a_loss(tables):
    repository, owned = tables.repository(), owned_by(tables)
    tables.break_commit(repository, happened=False)
    with pytest.raises(LostError):
        settle_with_effect(tables, repository, owned)
    assert (tables.effects(), tables.place().next_offset) == ([], 10)


def test_a_state_may_carry_a_position(tables):
    repository, owned = tables.repository(), owned_by(tables)
    waiting = StateChange(state=PartitionState.WAITING, code="SERVICE_DISABLED")
    assert repository.state(owned, waiting, 15)
    place = tables.place()
    assert (place.next_offset, place.state, place.state_code) == (15, "WAITING", "SERVICE_DISABLED")


def test_the_lowest_end_of_a_topic_that_was_cut_is_kept_until_a_person_acts(tables):
    repository, owned = tables.repository(), owned_by(tables)
    for end, kept in ((8, 8), (9, 8), (None, 8), (7, 7)):
        cut = StateChange(state=PartitionState.BLOCKED, code="TOPIC_TRUNCATED", lost_from=end)
        assert repository.state(owned, cut)
        assert tables.place().lost_from == kept
    tables.move(7)
    assert tables.place().lost_from is None


def test_ids_are_remembered_once_with_their_first_content(tables):
    repository, owned = tables.repository(), owned_by(tables)
    first, second = Applied(b"one", "former", 3, 10), Applied(b"two", "uuid", 0, 11)
    assert settle(repository, owned, a_batch_result(11, 10, seen=[("a", first, True)]))
    assert settle(repository, owned, a_batch_result(12, 11, seen=[("a", second, False)]))
    with repository.work(owned) as work:
        assert dict(work.seen(["a", "b"])) == {"a": {b"one"}}
        assert dict(work.applied(["a", "b"])) == {"a": first}


def test_an_id_that_was_to_be_new_and_is_taken_is_a_conflict(tables):
    """Whoever looked before the other one committed finds out at the end, and looks again."""
    repository, owned = tables.repository(), owned_by(tables)
    one, two = Applied(b"one", "uuid", 0, 10), Applied(b"two", "uuid", 0, 11)
    assert settle(repository, owned, a_batch_result(11, 10, seen=[("b", one, True)]))
    both = [("a", two, True), ("b", one, True)]
    with pytest.raises(OperationalError) as raised:
        settle(repository, owned, a_batch_result(13, 11, seen=both))
    assert classify(raised.value).kind is FailureClass.CONFLICT
    with repository.work(owned) as work:
        assert set(work.seen(["a", "b"])) == {"b"}
    assert tables.place().next_offset == 11


def test_the_id_of_an_open_failure_is_seen_too(tables):
    """A repetition of a message that waits for its retry must not be applied beside it."""
    repository, owned = tables.repository(), owned_by(tables)
    new = a_new_error(10)
    assert settle(repository, owned, BatchResult(11, new_errors=[new]))
    with repository.work(owned) as work:
        assert list(work.seen(["id-10"])) == ["id-10"]
        assert not work.applied(["id-10"])
    tables.alter(new.id, state=ErrorState.DELETED)
    with repository.work(owned) as work:
        assert not work.seen(["id-10"])


def test_a_gap_is_written_once_and_counts_when_it_is_acknowledged(tables):
    repository, owned = tables.repository(), owned_by(tables)
    for end in (20, 20, 25, 22):
        repository.gap(owned, end, "EXPIRED")
    assert tables.gaps() == [(10, 25)]
    assert repository.gap_acknowledged(owned) is None
    tables.acknowledge()
    assert repository.gap_acknowledged(owned) == 25
    owned.next_offset = 24
    assert repository.gap_acknowledged(owned) == 25
    owned.next_offset = 25
    assert repository.gap_acknowledged(owned) is None


def test_a_person_who_skipped_messages_has_not_accepted_that_they_are_gone(tables):
    repository, owned = tables.repository(), owned_by(tables)
    repository.gap(owned, 20, "SKIPPED")
    tables.acknowledge()
    assert repository.gap_acknowledged(owned) is None


def test_open_errors_are_counted_no_further_than_the_limit(tables):
    repository, owned = tables.repository(), owned_by(tables)
    new = [a_new_error(offset) for offset in (10, 11, 12)]
    assert settle(repository, owned, BatchResult(13, new_errors=new))
    tables.alter(new[0].id, state=ErrorState.DELETED)
    assert repository.open_errors() == 2


def test_what_was_released_does_not_count_as_open(tables):
    """A million messages that a replay gave back would stop their queue at the first failure."""
    repository, owned = tables.repository(), owned_by(tables)
    new = [a_new_error(offset) for offset in (10, 11, 12)]
    assert settle(repository, owned, BatchResult(13, new_errors=new))
    tables.alter(new[0].id, state=ErrorState.READY)
    assert repository.open_errors() == 2


def test_a_state_that_a_person_cleared_is_seen_when_it_is_looked_at_again(tables):
    repository, owned = tables.repository(), owned_by(tables)
    stopped = StateChange(state=PartitionState.BRAKED, code="TOO_MANY_OPEN_ERRORS")
    assert repository.state(owned, stopped)
    repository.look(owned)
    assert (owned.state, owned.state_code) == (PartitionState.BRAKED, "TOO_MANY_OPEN_ERRORS")
    assert not owned.reads_kafka
    assert repository.state(owned, RUNNING)
    repository.look(owned)
    assert owned.reads_kafka
    fenced = replace(owned, epoch=owned.epoch - 1, state=PartitionState.BRAKED)
    repository.look(fenced)
    assert fenced.state is PartitionState.BRAKED
