"""The contract of Ledger and Work, over the twins and over a real PostgreSQL: transactions."""

from dataclasses import replace

import pytest
from django.db import DatabaseError, IntegrityError

from integration.delivery.owned import Owned
from integration.delivery.ports import Ledger, LostError, QueueGoneError
from integration.delivery.settlement import RUNNING, Settlement, StateChange
from integration.policy.states import ErrorState, PartitionState
from integration.values import TopicFacts
from tests.contract.ledger_worlds import World
from tests.support.deliveries import (
    a_change,
    a_new_error,
    a_settlement,
    a_ticket,
    a_track,
    a_unit,
    blocked,
)


def owned_by(tables: World, partition: int = 0) -> Owned:
    """A fresh owner of one partition; whoever had it before is fenced."""
    return next(owned for owned in tables.desk().take() if owned.partition == partition)


def settle(ledger: Ledger, owned: Owned, settlement: Settlement) -> bool:
    with ledger.work(owned) as work:
        settled = work.settle(settlement)
    if settled:
        owned.next_offset = settlement.next_offset
    return settled


def settle_with_effect(
    tables: World, ledger: Ledger, owned: Owned, *, orphan: bool = False
) -> None:
    with ledger.work(owned) as work:
        tables.effect(ledger, 1, orphan=orphan)
        assert work.settle(a_settlement(11, 10))


def everything(tables: World) -> Settlement:
    """A settlement with one of each consequence."""
    new = a_new_error(11)
    return a_settlement(
        13,
        10,
        12,
        new_errors=[new],
        outgoing=[a_ticket(new.id, provider_id=tables.queue.provider_id)],
        seen=[("id-10", b"hash", 10)],
        state=blocked(new.id),
        logged=(10, 12),
    )


def test_a_track_of_a_row_whose_partition_is_gone_tells_that_partition(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    stray = Settlement(10, strays=[(7, a_track(4))])
    assert settle(ledger, owned, stray)
    odd, empty = a_track(5, "HOLD", message_id="id\t5"), a_track(4, "HOLD", message_id="")
    mixed = a_settlement(11, 10, strays=[(7, odd), (8, empty)])
    assert settle(ledger, owned, mixed)
    assert sorted(tables.tracks()) == [
        (0, 10, "APPLIED"),
        (7, 4, "APPLIED"),
        (7, 5, "HOLD"),
        (8, 4, "HOLD"),
    ]


def test_a_queue_that_was_removed_is_told_and_nothing_is_written_for_it(tables):
    desk, ledger = tables.desk(), tables.ledger()
    owned = next(one for one in desk.take() if one.partition == 0)
    tables.remove_queue()
    facts = TopicFacts("topic-1", {0: 0, 1: 0, 2: 0}, {0: 20, 1: 20, 2: 0})
    ledger.add_partitions(facts)
    assert not settle(ledger, owned, a_settlement(11, 10))
    assert not ledger.state(owned, RUNNING)
    assert (ledger.head(owned), ledger.due_rows(owned, 10)) == (None, [])
    with pytest.raises(QueueGoneError, match="'q' was deleted"):
        ledger.snapshot()
    desk.close(clean=True)
    assert tables.desk().take() == []


def test_a_settlement_is_there_as_a_whole_after_the_commit(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    settlement = everything(tables)
    with ledger.work(owned) as work:
        tables.effect(ledger, 1)
        assert work.settle(settlement)

    place = tables.place()
    assert (place.next_offset, place.state, place.state_code) == (13, "BLOCKED", "HEAD_HELD")
    assert tables.effects() == [1]
    assert tables.tracks() == [(0, 10, "APPLIED"), (0, 12, "APPLIED")]
    error = settlement.new_errors[0].id
    assert tables.row(error).state == "RETRY"
    assert tables.tries(error) == [(1, "RETRY")]
    assert tables.outbox() == [("TICKET", "PENDING")]
    with ledger.work(owned) as work:
        assert dict(work.seen(["id-10"])) == {"id-10": {b"hash"}}


@pytest.mark.parametrize("how", ["abandon", "exception", "not settled"])
def test_a_block_that_is_not_settled_leaves_nothing(tables, how):
    ledger, owned = tables.ledger(), owned_by(tables)

    def block() -> None:
        with ledger.work(owned) as work:
            tables.effect(ledger, 1)
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
    ledger, desk = tables.ledger(), tables.desk()
    old = desk.take()[0]
    row_error = a_new_error(10, delay_seconds=0.0)
    assert settle(ledger, old, Settlement(10, new_errors=[row_error]))
    row = ledger.head(old)
    tables.die(desk)
    new = owned_by(tables)
    before, row_before = tables.place(), tables.row(row_error.id)

    with ledger.work(old) as work:
        tables.effect(ledger, 1)
        settled = work.settle(Settlement(11, changes=[a_change(row)], state=blocked()))
    assert not settled
    assert not ledger.mark(old, a_unit(10))
    assert not ledger.mark(old, a_unit(10, row=row))
    assert not ledger.state(old, blocked())
    assert not ledger.state(old, RUNNING, 12)
    ledger.unmark(old, a_unit(10, row=row))
    ledger.gap(old, 20, "EXPIRED")
    ledger.expire_head(old)

    assert tables.place() == before
    assert tables.row(row_error.id) == row_before
    assert (tables.effects(), tables.tracks(), tables.gaps()) == ([], [], [])
    assert settle(ledger, new, a_settlement(11, 10))


def test_a_position_that_another_moved_fences_as_well(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    tables.put(next_offset=12)
    assert not settle(ledger, owned, a_settlement(11, 10))
    assert not ledger.state(owned, RUNNING, 11)
    assert tables.place().next_offset == 12
    assert tables.tracks() == []


def test_undo_goes_back_to_the_savepoint_and_keep_moves_it(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    with ledger.work(owned) as work:
        work.savepoint()
        tables.effect(ledger, 1)
        work.keep()
        tables.effect(ledger, 2)
        work.undo()
        tables.effect(ledger, 3)
        work.undo()
        tables.effect(ledger, 4)
        assert work.settle(a_settlement(11, 10))
    assert tables.effects() == [1, 4]


def test_a_deferred_constraint_is_checked_where_its_message_is_known(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    with ledger.work(owned) as work:
        work.savepoint()
        tables.effect(ledger, 1)
        work.keep()
        tables.effect(ledger, 2, orphan=True)
        with pytest.raises(IntegrityError):
            work.keep()
        work.undo()
        tables.effect(ledger, 3)
        work.check()
        assert work.settle(a_settlement(11, 10))
    assert tables.effects() == [1, 3]


def test_a_deferred_constraint_that_nobody_checked_refuses_the_commit(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    with pytest.raises(IntegrityError):
        settle_with_effect(tables, ledger, owned, orphan=True)
    assert (tables.effects(), tables.place().next_offset) == ([], 10)


def test_a_swallowed_error_is_seen_and_undone(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    with ledger.work(owned) as work:
        work.savepoint()
        assert not work.is_broken()
        with pytest.raises(DatabaseError):
            tables.refuse(ledger)
        assert work.is_broken()
        work.undo()
        assert not work.is_broken()
        tables.effect(ledger, 1)
        assert work.settle(a_settlement(11, 10))
    assert tables.effects() == [1]


def test_arrival_numbers_grow_and_are_never_given_twice(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    numbers = []
    for _ in range(3):
        with ledger.work(owned) as work:
            numbers.append(work.arrival)
            work.abandon()
    assert numbers == sorted(set(numbers))


def test_a_commit_whose_answer_is_lost_counts_when_it_happened(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    tables.break_commit(ledger, happened=True)
    settle_with_effect(tables, ledger, owned)
    assert (tables.effects(), tables.place().next_offset) == ([1], 11)


def test_a_commit_that_did_not_happen_is_told_as_a_loss(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    tables.break_commit(ledger, happened=False)
    with pytest.raises(LostError):
        settle_with_effect(tables, ledger, owned)
    assert (tables.effects(), tables.place().next_offset) == ([], 10)


def test_a_state_may_carry_a_position(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    waiting = StateChange(state=PartitionState.WAITING, code="SERVICE_DISABLED")
    assert ledger.state(owned, waiting, 15)
    place = tables.place()
    assert (place.next_offset, place.state, place.state_code) == (15, "WAITING", "SERVICE_DISABLED")


def test_ids_are_remembered_once_with_their_first_content(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    assert settle(ledger, owned, a_settlement(11, 10, seen=[("a", b"one", 10)]))
    assert settle(ledger, owned, a_settlement(12, 11, seen=[("a", b"two", 11)]))
    with ledger.work(owned) as work:
        assert dict(work.seen(["a", "b"])) == {"a": {b"one"}}


def test_the_id_of_an_open_failure_is_seen_too(tables):
    """A repetition of a message that waits for its retry must not be applied beside it."""
    ledger, owned = tables.ledger(), owned_by(tables)
    new = a_new_error(10)
    assert settle(ledger, owned, Settlement(11, new_errors=[new]))
    with ledger.work(owned) as work:
        assert list(work.seen(["id-10"])) == ["id-10"]
    tables.alter(new.id, state=ErrorState.DELETED)
    with ledger.work(owned) as work:
        assert not work.seen(["id-10"])


def test_a_gap_is_written_once_and_counts_when_it_is_acknowledged(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    for end in (20, 20, 25, 22):
        ledger.gap(owned, end, "EXPIRED")
    assert tables.gaps() == [(10, 25)]
    assert ledger.gap_acknowledged(owned) is None
    tables.acknowledge()
    assert ledger.gap_acknowledged(owned) == 25
    owned.next_offset = 24
    assert ledger.gap_acknowledged(owned) == 25
    owned.next_offset = 25
    assert ledger.gap_acknowledged(owned) is None


def test_open_errors_are_counted_no_further_than_the_limit(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    new = [a_new_error(offset) for offset in (10, 11, 12)]
    assert settle(ledger, owned, Settlement(13, new_errors=new))
    tables.alter(new[0].id, state=ErrorState.DELETED)
    assert ledger.open_errors() == 2


def test_what_was_released_does_not_count_as_open(tables):
    """A million messages that a replay gave back would brake their queue at the first failure."""
    ledger, owned = tables.ledger(), owned_by(tables)
    new = [a_new_error(offset) for offset in (10, 11, 12)]
    assert settle(ledger, owned, Settlement(13, new_errors=new))
    tables.alter(new[0].id, state=ErrorState.READY)
    assert ledger.open_errors() == 2


def test_a_state_that_a_person_cleared_is_seen_when_it_is_looked_at_again(tables):
    ledger, owned = tables.ledger(), owned_by(tables)
    braked = StateChange(state=PartitionState.BRAKED, code="TOO_MANY_OPEN_ERRORS")
    assert ledger.state(owned, braked)
    ledger.look(owned)
    assert (owned.state, owned.state_code) == (PartitionState.BRAKED, "TOO_MANY_OPEN_ERRORS")
    assert not owned.reads_kafka
    assert ledger.state(owned, RUNNING)
    ledger.look(owned)
    assert owned.reads_kafka
    fenced = replace(owned, epoch=owned.epoch - 1, state=PartitionState.BRAKED)
    ledger.look(fenced)
    assert fenced.state is PartitionState.BRAKED
