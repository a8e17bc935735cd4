"""The contract of the PartitionManager and of crash markers, in memory and on PostgreSQL."""

from integration.delivery.batch_result import RUNNING, BatchResult, StateChange
from integration.delivery.owned import Owned
from integration.delivery.ports import Repository
from integration.delivery.unit import OpenError
from integration.policy.shares import Runs, share
from integration.policy.states import ErrorState, PartitionState
from integration.values import Assignment
from tests.contract.repository_world import World
from tests.support.deliveries import a_batch_result, a_change, a_new_error, a_unit, settle


def a_due_row(tables: World, repository: Repository, owned: Owned) -> OpenError:
    new = a_new_error(10, delay_seconds=0.0)
    settle(repository, owned, BatchResult(11, new_errors=[new]))
    [row] = repository.due_rows(owned, 10)
    return row


def test_every_free_partition_is_taken_once_and_its_epoch_raised(tables):
    first, second = tables.manager(), tables.manager()
    held = first.take()
    assert [(o.partition, o.epoch, o.next_offset) for o in held] == [(0, 1, 10), (1, 1, 10)]
    assert second.take() == []
    first.close(clean=True)
    assert [o.epoch for o in tables.manager().take()] == [2, 2]


def test_a_position_that_went_back_knows_up_to_where_something_had_failed(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    assert owned.failed_until is None
    for offset in (10, 11, 12):
        new = a_new_error(offset)
        settle(repository, owned, BatchResult(offset + 1, new_errors=[new]))
    tables.alter(new.id, state=ErrorState.DELETED)
    manager.close(clean=True)
    for position, expected in ((13, None), (11, 12), (12, 12)):
        tables.put(next_offset=position)
        manager = tables.manager()
        first, second = manager.take()
        assert (first.failed_until, second.failed_until) == (expected, None)
        manager.close(clean=True)
    # A deleted row counts: a person may restore it while the replay is under way.
    tables.put(next_offset=10, topic_uuid="another")
    assert tables.manager().take()[0].failed_until is None


def test_where_a_topic_ended_that_lost_its_end_is_known_to_whoever_takes_it(tables):
    tables.put(lost_from=7)
    assert [owned.lost_from for owned in tables.manager().take()] == [7, None]


def test_a_position_that_was_moved_knows_up_to_where_something_had_failed_before(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    for offset in (10, 11):
        settle(repository, owned, BatchResult(offset + 1, new_errors=[a_new_error(offset)]))
    manager.close(clean=True)

    def known() -> int | None:
        manager = tables.manager()
        found = manager.take()[0].moved_until
        manager.close(clean=True)
        return found

    assert known() is None
    tables.move(11)
    assert known() == 12
    tables.put(next_offset=12)
    assert known() is None
    # What failed since is met for the first time.
    manager = tables.manager()
    settle(repository, manager.take()[0], BatchResult(12, new_errors=[a_new_error(14)]))
    manager.close(clean=True)
    tables.put(next_offset=10)
    assert known() == 12


def test_close_may_be_called_twice_and_gives_everything_back(tables):
    manager = tables.manager()
    manager.take()
    manager.close(clean=True)
    manager.close(clean=True)
    assert len(tables.manager().take()) == 2
    assert tables.place().unclean_ends == 0


def test_a_waiting_state_is_due_when_its_time_has_come(tables):
    repository, manager = tables.repository(), tables.manager()
    backoff = StateChange(state=PartitionState.BACKOFF, code="RETRY_WAIT", resume_seconds=30.0)
    assert repository.state(manager.take()[0], backoff)
    manager.close(clean=True)
    manager = tables.manager()
    owned = manager.take()[0]
    assert (owned.state, owned.state_code, owned.due) == ("BACKOFF", "RETRY_WAIT", False)
    manager.close(clean=True)
    tables.later(31)
    assert tables.manager().take()[0].due


def test_unclean_ends_are_counted_while_the_position_does_not_move(tables):
    repository = tables.repository()
    for expected in (0, 1, 2):
        manager = tables.manager()
        owned = manager.take()[0]
        assert owned.unclean_ends == expected
        tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    settle(repository, owned, a_batch_result(11, 10))
    tables.die(manager)
    manager = tables.manager()
    assert manager.take()[0].unclean_ends == 1
    manager.close(clean=True)
    # A run that gave way before the message was through has proved nothing of it.
    manager = tables.manager()
    owned = manager.take()[0]
    assert owned.unclean_ends == 1
    settle(repository, owned, a_batch_result(12, 11))
    manager.close(clean=True)
    assert tables.manager().take()[0].unclean_ends == 0


def test_rows_that_ran_alone_are_counted_over_runs_until_one_dies(tables):
    """As many as a batch has prove that none of them kills: nobody isolates any more then."""
    tables.configure(batch_size=5)
    repository = tables.repository()
    for count in (4, 4):
        manager = tables.manager()
        assert not repository.ran_alone(manager.take()[0], count)
        tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    assert (owned.unclean_ends, repository.ran_alone(owned, 2)) == (2, False)
    manager.close(clean=True)
    manager = tables.manager()
    former, owned = owned, manager.take()[0]
    assert not repository.ran_alone(former, 9)
    assert (owned.unclean_ends, repository.ran_alone(owned, 3)) == (2, True)
    tables.die(manager)
    assert tables.manager().take()[0].unclean_ends == 1


def test_crashes_of_a_suspect_are_counted_across_runs_that_gave_way_before_it(tables):
    repository = tables.repository()
    for expected in (0, 1, 2):
        manager = tables.manager()
        owned = manager.take()[0]
        assert (owned.suspect_offset, owned.suspect_crashes) == (12 if expected else None, expected)
        assert repository.mark(owned, a_unit(12))
        tables.die(manager)
        manager = tables.manager()
        owned = manager.take()[0]
        assert (owned.suspect_offset, owned.suspect_crashes) == (12, expected + 1)
        manager.close(clean=True)
    owned = tables.manager().take()[0]
    owned.isolate_until = 20
    settle(repository, owned, a_batch_result(13, 10, 11, 12))
    assert (tables.place().suspect_offset, tables.place().suspect_crashes) == (None, 0)


def test_a_suspect_offset_counts_its_crashes_until_something_is_settled(tables):
    repository = tables.repository()
    for expected in (0, 1, 2):
        manager = tables.manager()
        owned = manager.take()[0]
        assert owned.suspect_crashes == expected
        assert repository.mark(owned, a_unit(10))
        tables.die(manager)
    owned = tables.manager().take()[0]
    assert (owned.suspect_offset, owned.suspect_crashes) == (10, 3)
    assert repository.mark(owned, a_unit(11))
    assert (tables.place().suspect_offset, tables.place().suspect_crashes) == (11, 0)
    owned.isolate_until = 20
    settle(repository, owned, a_batch_result(11, 10))
    assert tables.place().suspect_offset == 11
    settle(repository, owned, a_batch_result(12, 11))
    assert (tables.place().suspect_offset, tables.place().suspect_crashes) == (None, 0)


def test_the_suspect_offset_is_not_blamed_for_a_row_that_was_in_work(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    row = a_due_row(tables, repository, owned)
    assert repository.mark(owned, a_unit(11))
    assert repository.mark(owned, a_unit(10, row=row))
    tables.die(manager)
    owned = tables.manager().take()[0]
    assert (owned.suspect_offset, owned.suspect_crashes) == (11, 0)
    assert tables.row(row.id).crashes == 1


def test_a_clean_end_forgets_the_suspect(tables):
    manager = tables.manager()
    assert tables.repository().mark(manager.take()[0], a_unit(10))
    manager.close(clean=True)
    assert tables.manager().take()[0].suspect_offset is None


def test_a_marked_row_is_reverted_by_the_next_owner_with_one_crash_and_one_attempt(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    row = a_due_row(tables, repository, owned)
    unit = a_unit(10, row=row)
    assert repository.mark(owned, unit)
    assert tables.row(row.id).state == "PROCESSING"
    assert repository.due_rows(owned, 10) == []
    tables.die(manager)

    owned = tables.manager().take()[0]

    told = tables.row(row.id)
    assert (told.state, told.attempts, told.crashes, told.carrier) == ("RETRY", 2, 1, "row")
    assert [found.id for found in repository.due_rows(owned, 10)] == [row.id]


def test_the_marker_of_a_row_whose_partition_is_gone_is_reverted_by_the_lowest(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    row = a_due_row(tables, repository, owned)
    assert repository.mark(owned, a_unit(10, row=row))
    tables.alter(row.id, partition=7)
    tables.die(manager)
    tables.manager().take()
    assert (tables.row(row.id).state, tables.row(row.id).crashes) == ("RETRY", 1)


def test_a_marked_row_can_be_settled_under_its_marker(tables):
    repository, owned = tables.repository(), tables.manager().take()[0]
    row = a_due_row(tables, repository, owned)
    unit = a_unit(10, row=row)
    assert repository.mark(owned, unit)
    assert unit.row is not None
    with repository.work(owned) as work:
        assert work.claim([(unit.row.id, unit.row.version)]) == {row.id}
        assert work.settle(BatchResult(11, changes=[a_change(unit.row)]))
    repository.unmark(owned, unit)
    assert (tables.row(row.id).state, tables.row(row.id).attempts) == ("RESOLVED", 2)


def test_unmark_gives_back_the_state_that_was_there_and_counts_nothing(tables):
    repository, owned = tables.repository(), tables.manager().take()[0]
    row = a_due_row(tables, repository, owned)
    tables.alter(row.id, state=ErrorState.READY)
    [row] = repository.due_rows(owned, 10)
    unit = a_unit(10, row=row)
    assert repository.mark(owned, unit)
    repository.unmark(owned, unit)
    assert (tables.row(row.id).state, tables.row(row.id).attempts) == ("READY", 1)
    repository.unmark(owned, unit)
    assert tables.row(row.id).state == "READY"
    # The same unit may be marked again, as a try that is repeated does.
    assert repository.mark(owned, unit)


def test_a_row_that_a_person_moved_is_not_marked(tables):
    repository, owned = tables.repository(), tables.manager().take()[0]
    row = a_due_row(tables, repository, owned)
    tables.alter(row.id, state=ErrorState.HOLD)
    unit = a_unit(10, row=row)
    # The partition is still ours: only this row is to be left alone, and its claim says so.
    assert repository.mark(owned, unit)
    assert tables.row(row.id).state == "HOLD"
    repository.unmark(owned, unit)
    assert tables.row(row.id).state == "HOLD"
    with repository.work(owned) as work:
        assert work.claim([(unit.row.id, unit.row.version)]) == frozenset()


def test_whose_partition_was_taken_marks_neither_offset_nor_row(tables):
    repository, manager = tables.repository(), tables.manager()
    owned = manager.take()[0]
    row = a_due_row(tables, repository, owned)
    tables.die(manager)
    tables.manager().take()
    assert not repository.mark(owned, a_unit(11))
    assert not repository.mark(owned, a_unit(10, row=row))
    assert tables.row(row.id).state == "RETRY"
    tables.alter(row.id, state=ErrorState.HOLD)
    assert not repository.mark(owned, a_unit(10, row=row))


def test_states_survive_the_run(tables):
    repository, manager = tables.repository(), tables.manager()
    outage = StateChange(state=PartitionState.OUTAGE, code="DOWN", resume_seconds=5.0, probes=3)
    assert repository.state(manager.take()[0], outage)
    manager.close(clean=True)
    manager = tables.manager()
    owned = manager.take()[0]
    assert (owned.state, owned.probes) == ("OUTAGE", 3)
    assert repository.state(owned, RUNNING)
    manager.close(clean=True)
    assert tables.manager().take()[0].state == "RUNNING"


def test_a_run_that_joins_gets_what_another_gives_up(tables):
    repository = tables.repository()
    first, second = tables.manager(workers=None), tables.manager(workers=None)
    held = first.take()
    assert (first.runs(), len(held)) == (Runs(2, 1, 0), 2)
    assert second.take() == []
    seen = [manager.runs() for manager in (first, second)]
    assert sorted(runs.rank for runs in seen) == [0, 1]
    assert [share(runs, None) for runs in seen] == [1, 1]
    assert second.take_more(1) == []

    first.give_up(held[1:])

    [owned] = second.take_more(2)
    assert (owned.partition, owned.epoch, owned.unclean_ends) == (1, 2, 0)
    assert not repository.state(held[1], RUNNING)
    assert repository.state(held[0], RUNNING)
    assert first.take_more(2) == []
    second.close(clean=True)
    assert first.runs().count == 1
    assert [o.partition for o in first.take_more(2)] == [1]


def test_a_run_that_begins_beside_others_takes_its_share_of_what_is_free(tables):
    first, second = tables.manager(workers=None), tables.manager(workers=None)
    held = first.take()
    first.give_up(held)
    assert len(second.take()) == 1
    assert len(first.take_more(2)) == 1


def test_no_more_runs_share_a_queue_than_it_has_workers(tables):
    first, second = tables.manager(workers=1), tables.manager(workers=1)
    assert len(first.take()) == 2
    assert second.take() == []
    assert sorted(share(manager.runs(), 1) for manager in (first, second)) == [0, 2]


def test_what_an_owner_died_with_is_no_share_of_those_who_are_left(tables):
    first, second = tables.manager(workers=None), tables.manager(workers=None)
    held = first.take()
    assert second.take() == []
    first.give_up(held[1:])
    assert len(second.take_more(1)) == 1
    tables.die(second)
    assert first.take_more(1) == []
    first.close(clean=True)
    assert [(o.partition, o.unclean_ends) for o in tables.manager().take()] == [(0, 0), (1, 1)]


def test_a_wish_for_help_is_left_for_whoever_starts_runs(tables):
    manager = tables.manager(workers=None)
    manager.take()
    assert not tables.help_wanted()
    manager.ask_for_help()
    assert tables.help_wanted()


def member_of(*partitions: int) -> Assignment:
    return Assignment("m", frozenset(partitions))


def test_a_member_takes_what_its_group_assigned_as_far_as_it_is_free(tables):
    first, second = tables.manager(workers=None), tables.manager(workers=None)
    assert [o.partition for o in first.take(lambda: member_of(1))] == [1]
    # Both were assigned to the second one meanwhile; the first still has its lock.
    assert [o.partition for o in second.take(lambda: member_of(0, 1))] == [0]
    assert second.take_assigned(member_of(1)) == []
    first.close(clean=True)
    assert [(o.partition, o.epoch) for o in second.take_assigned(member_of(1))] == [(1, 2)]
    assert second.take_assigned(member_of(0, 1)) == []


def test_a_member_with_nothing_assigned_takes_nothing(tables):
    assert tables.manager(workers=None).take(Assignment) == []


def test_what_an_owner_died_with_is_taken_by_whom_the_group_assigned_it_to(tables):
    first, second = tables.manager(workers=None), tables.manager(workers=None)
    assert len(second.take(lambda: member_of(1))) == 1
    assert len(first.take(lambda: member_of(0))) == 1
    tables.die(second)
    assert [(o.partition, o.unclean_ends) for o in first.take_assigned(member_of(0, 1))] == [(1, 1)]


def test_a_run_too_many_joins_no_group(tables):
    asked = []

    def joins() -> Assignment:
        asked.append(True)
        return member_of(0, 1)

    assert len(tables.manager(workers=1).take(joins)) == 2
    asked.clear()
    assert tables.manager(workers=1).take(joins) == []
    assert not asked
