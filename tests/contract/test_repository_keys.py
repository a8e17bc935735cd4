"""The contract of the Repository, in memory and on PostgreSQL: order within a key."""

from dataclasses import replace
from uuid import UUID

import pytest

from integration.delivery.added import Addition
from integration.delivery.batch_result import BatchResult
from integration.delivery.key_order import order_key
from integration.delivery.owned import Owned
from integration.delivery.ports import Repository
from integration.delivery.reading import RetryMarker
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.positions import PRODUCERS_KNOW_SECONDS
from integration.policy.states import ErrorState
from integration.values import TopicFacts
from tests.contract.repository_world import TOPIC, World
from tests.support.deliveries import a_change, a_new_error, a_record, a_unit, settle


@pytest.fixture
def tables(tables: World) -> World:
    tables.keep_keys_in_order()
    return tables


def failed(offset: int, key: bytes | None, state: ErrorState = ErrorState.PARKED, **fields):
    unit = a_unit(record=a_record(offset, key=key))
    return a_new_error(offset, state, unit=unit, **fields)


def fail(repository: Repository, owned: Owned, *news) -> list[UUID]:
    settle(repository, owned, BatchResult(owned.next_offset + len(news), new_errors=list(news)))
    return [new.id for new in news]


def due(repository: Repository, owned: Owned, limit: int = 10) -> list[int]:
    return [row.offset for row in repository.due_rows(owned, limit)]


def states(tables: World, ids: list[UUID]) -> list[str]:
    return [tables.row(id_).state for id_ in ids]


def held(offset: int, key: bytes | None):
    return failed(offset, key, ErrorState.HOLD)


def test_what_is_parked_waits_behind_an_open_failure_of_its_key(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"), failed(12, b"k"))
    assert states(tables, ids) == ["HOLD", "PARKED", "PARKED"]
    assert due(repository, owned) == []


def test_what_is_parked_behind_nothing_is_due_at_once(tables, owned):
    """Its key was open when the batch began: somebody closed it before the commit."""
    repository = tables.repository()
    ids = fail(repository, owned, failed(10, b"k"), failed(11, b"k"), failed(12, b"other"))
    assert states(tables, ids) == ["RETRY", "PARKED", "RETRY"]


def test_a_released_failure_brings_those_behind_it_along(tables, owned):
    repository = tables.repository()
    ids = fail(
        repository, owned, held(10, b"k"), failed(11, b"k"), held(12, b"o"), failed(13, b"k")
    )
    tables.alter(ids[0], state=ErrorState.READY)
    assert due(repository, owned) == [10, 11, 13]
    assert due(repository, owned, limit=2) == [10, 11]


def test_none_passes_one_that_waits_for_a_person(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"), failed(12, b"k"))
    tables.alter(ids[0], state=ErrorState.READY)
    tables.alter(ids[1], state=ErrorState.HOLD)
    assert due(repository, owned) == [10]


def test_what_was_released_behind_another_is_parked_until_its_turn(tables, owned):
    """A run looks at one row for each key, however many of them were released."""
    repository = tables.repository()
    ids = fail(repository, owned, *(held(offset, b"k") for offset in (10, 11, 12)), held(13, b"o"))
    for id_ in ids[1:]:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == [13]
    assert states(tables, ids) == ["HOLD", "PARKED", "PARKED", "READY"]
    tables.alter(ids[0], state=ErrorState.READY)
    assert due(repository, owned) == [10, 11, 12, 13]


def test_what_was_released_and_parked_stops_no_queue(tables, owned):
    """It is on its way: of many that were released the first failure would stop their queue."""
    repository = tables.repository()
    news = [held(offset, b"k") for offset in (10, 11, 12)]
    ids = fail(repository, owned, *news, failed(13, b"k"))
    for id_ in ids[1:3]:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == []
    assert states(tables, ids) == ["HOLD", "PARKED", "PARKED", "PARKED"]
    assert (repository.open_errors(), repository.most_parked([order_key(b"k")])) == (2, 1)


def test_a_fenced_owner_parks_nothing(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), held(11, b"k"))
    tables.alter(ids[1], state=ErrorState.READY)
    assert due(repository, replace(owned, epoch=owned.epoch - 1)) == []
    assert states(tables, ids) == ["HOLD", "READY"]


def test_an_open_failure_tells_where_it_stands(tables):
    first, second = tables.manager().take()
    repository = tables.repository()
    fail(repository, first, held(10, b"k"), failed(11, b"k"))
    key, other = order_key(b"k"), order_key(b"o")
    assert repository.open_keys(first, [key, other]) == {key: 10}
    assert repository.open_keys(second, [key, other]) == {key: -1}


def test_what_is_read_again_and_fails_comes_before_what_failed_behind_it(tables, owned):
    """The position went back: the order of the log decides, not which of them failed first."""
    repository = tables.repository()
    later = fail(repository, owned, held(12, b"k"), held(13, b"o"))
    owned.failed_until = 13
    earlier = fail(repository, owned, held(10, b"k"), held(11, b"o"))
    for id_ in later:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == []
    for id_ in earlier:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == [10, 11, 12, 13]


def test_what_the_position_went_back_over_waits_for_it_and_is_as_new_as_its_place(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), held(11, b"o"), held(12, b"k"))
    for id_ in ids:
        tables.alter(id_, state=ErrorState.READY)
    before = [row.arrival_batch for row in repository.due_rows(owned, 10)]
    tables.move(10)
    owned.next_offset, owned.moved_until, owned.epoch = 10, 13, tables.place().epoch
    assert due(repository, owned) == []
    settle(repository, owned, BatchResult(12, met_again=[10, 11]))
    assert due(repository, owned) == [10, 11], "the one that follows the first waits as well"
    numbers = [(row.arrival_batch, row.arrival_index) for row in repository.due_rows(owned, 10)]
    assert numbers == [(numbers[0][0], 10), (numbers[0][0], 11)]
    assert numbers[0][0] > max(before)
    settle(repository, owned, BatchResult(13, met_again=[12]))
    assert due(repository, owned) == [10, 11, 12]


def test_a_closed_failure_met_again_follows_what_fails_before_it(tables, owned):
    repository = tables.repository()
    [again] = fail(repository, owned, held(12, b"k"))
    tables.alter(again, state=ErrorState.RESOLVED)
    owned.failed_until = 12
    [first, _] = fail(repository, owned, held(11, b"k"), failed(12, b"k"))
    assert states(tables, [first, again]) == ["HOLD", "PARKED"]


def test_a_commit_that_closes_a_failure_wakes_the_next_of_its_key(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"), failed(12, b"k"))
    tables.alter(ids[0], state=ErrorState.READY)
    first = repository.due_rows(owned, 1)[0]
    with repository.work(owned) as work:
        assert work.claim([(first.id, first.version)])
        assert work.settle(BatchResult(owned.next_offset, changes=[a_change(first)]))
    assert states(tables, ids) == ["RESOLVED", "RETRY", "PARKED"]
    assert due(repository, owned) == [11, 12]


def test_messages_without_a_key_wait_for_none(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, None), failed(11, None, ErrorState.RETRY))
    tables.later(31)
    assert states(tables, ids) == ["HOLD", "RETRY"]
    assert due(repository, owned) == [11]


def test_isolated_failures_bring_nothing_along(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"))
    tables.alter(ids[0], state=ErrorState.READY)
    owned.isolate_until = 100
    assert due(repository, owned) == [10]


def test_a_run_wakes_what_a_change_of_settings_left_parked(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"))
    repository.wake_parked()
    assert states(tables, ids) == ["HOLD", "PARKED"]
    tables.configure(keeps_keys_in_order=False)
    tables.repository().wake_parked()
    assert states(tables, ids) == ["HOLD", "RETRY"]


def test_the_key_with_most_parked_is_counted_up_to_the_limit(tables, owned):
    tables.configure(failure_thresholds=FailureThresholds(max_parked=2))
    repository = tables.repository()
    parked = [failed(offset, b"k") for offset in range(11, 16)]
    fail(repository, owned, held(10, b"k"), *parked, held(16, b"o"), failed(17, b"o"))
    keys = [order_key(b"k"), order_key(b"o")]
    assert repository.most_parked(keys) == 3
    assert repository.most_parked(keys[1:]) == 1
    assert repository.most_parked([order_key(b"none")]) == 0


def test_an_added_partition_begins_when_the_others_have_come_as_far(tables):
    facts = TopicFacts(TOPIC, {0: 0, 1: 0, 2: 0, 3: 4}, {0: 12, 1: 10, 2: 5, 3: 6})
    assert tables.repository().add_partitions(facts) is Addition.DONE
    first, _, added, late = tables.manager().take()
    assert (added.next_offset, late.next_offset) == (0, 0), "what has expired was for it, too"
    repository = tables.repository()
    assert (first.waits_for_others, added.waits_for_others) == (False, True)
    assert not repository.has_begun(added, {})
    tables.later(PRODUCERS_KNOW_SECONDS)
    assert repository.note_ends(added, {0: 14, 1: 10, 2: 5, 3: 6})
    settle(repository, first, BatchResult(13))
    assert not repository.has_begun(added, {})
    settle(repository, first, BatchResult(14))
    assert repository.has_begun(added, {})
    assert not repository.has_begun(replace(added, epoch=added.epoch + 1), {})


def test_an_added_partition_waits_until_producers_know_it_though_the_others_are_read(tables):
    facts = TopicFacts(TOPIC, {0: 0, 1: 0, 2: 0, 3: 0}, {0: 10, 1: 10, 2: 0, 3: 0})
    assert tables.repository().add_partitions(facts) is Addition.DONE
    first, _, added, _ = tables.manager().take()
    repository = tables.repository()
    assert repository.producers_know(first) is None
    for is_now in (False, True):
        know = repository.producers_know(added)
        assert know is not None
        assert know.is_now is is_now
        assert not repository.has_begun(added, {}), "nobody knows up to where"
        fenced = added if not is_now else replace(added, epoch=added.epoch + 1)
        assert not repository.note_ends(fenced, facts.high)
        tables.later(PRODUCERS_KNOW_SECONDS)
    assert repository.note_ends(added, facts.high)
    assert repository.producers_know(added) is None
    assert not repository.note_ends(added, {0: 99}), "they are noted once"
    assert repository.has_begun(added, {})


def test_an_added_partition_waits_for_no_other_beyond_the_end_of_its_log(tables):
    """Another leader has less than was there when the ends were noted."""
    facts = TopicFacts(TOPIC, dict.fromkeys(range(4), 0), {0: 12, 1: 10, 2: 5, 3: 6})
    assert tables.repository().add_partitions(facts) is Addition.DONE
    first, _, added, _ = tables.manager().take()
    repository = tables.repository()
    assert not repository.has_begun(added, {0: 10}), "nobody knows where it ends"
    tables.later(PRODUCERS_KNOW_SECONDS)
    assert repository.note_ends(added, {0: 14, 1: 10, 2: 5, 3: 6})
    settle(repository, first, BatchResult(12))
    # Where the position lies beyond the end, a person decides what is read.
    for end in (11, 13, 14):
        assert not repository.has_begun(added, {0: end, 1: 10})
    assert repository.has_begun(added, {0: 12, 1: 10})


def test_an_added_partition_begins_with_the_highest_epoch(tables):
    """The topic may have had it before: what was left in it then is older."""
    tables.put(1, epoch=70)
    facts = TopicFacts(TOPIC, {0: 0, 1: 0, 2: 0, 3: 0}, {0: 12, 1: 10, 2: 5, 3: 6})
    assert tables.repository().add_partitions(facts) is Addition.DONE
    assert [tables.place(partition).epoch for partition in (2, 3)] == [70, 70]


def test_no_partition_is_added_while_what_is_left_of_it_is_tried(tables, owned):
    """The topic had it before; the owner of the lowest one works for what failed there."""
    repository = tables.repository()
    [left] = fail(repository, owned, failed(10, b"k", ErrorState.RETRY, delay_seconds=0.0))
    tables.alter(left, partition=2)
    [row] = repository.due_rows(owned, 10)
    unit = a_unit(10, row=row)
    assert repository.mark(owned, unit)
    facts = TopicFacts(TOPIC, dict.fromkeys(range(4), 0), {0: 12, 1: 10, 2: 5, 3: 6})
    assert repository.add_partitions(facts) is Addition.LATER
    repository.unmark(owned, unit)
    assert repository.add_partitions(facts) is Addition.DONE
    assert not repository.mark(owned, unit), "what was chosen before is the new owner's"
    assert [tables.place(partition).epoch for partition in (0, 2, 3)] == [owned.epoch + 1] * 3


def test_no_partition_is_added_where_keys_have_moved_among_the_others(tables):
    facts = TopicFacts(TOPIC, {0: 0, 1: 0, 2: 0}, {0: 12, 1: 10, 2: 5})
    assert tables.repository().add_partitions(facts) is Addition.KEYS_MOVED
    assert len(tables.manager().take()) == 2


def test_where_no_key_keeps_its_order_any_more_all_are_due_and_none_is_parked(tables, owned):
    repository = tables.repository()
    fail(repository, owned, held(10, b"k"), failed(11, b"k"), failed(12, b"k"))
    tables.configure(keeps_keys_in_order=False)
    repository = tables.repository()
    repository.wake_parked()
    assert due(repository, owned) == [11, 12]


def test_only_a_sequential_queue_tells_its_owner_that_some_are_parked(tables):
    manager = tables.manager()
    owned = manager.take()[0]
    fail(tables.repository(), owned, held(10, b"k"), failed(11, b"k"))
    manager.close(clean=True)
    assert not tables.manager().take()[0].has_parked


def test_a_retry_marker_passes_no_failure_of_its_key(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k", ErrorState.RETRY))
    assert repository.retry_rows([RetryMarker(ids[1], 1)]) == {}


@pytest.mark.parametrize(
    ("first", "becomes"), [(ErrorState.HOLD, "PARKED"), (ErrorState.RESOLVED, "RETRY")]
)
def test_a_head_waits_for_what_is_open_of_its_key_and_only_for_that(tables, owned, first, becomes):
    """It is parked as one that never failed is: woken at once where the first was closed since."""
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k", ErrorState.READY))
    tables.alter(ids[0], state=first)
    here = replace(owned, next_offset=11)
    head = repository.head(here)
    assert not head.parked
    change = a_change(head, ErrorState.PARKED, failure=None)
    settle(repository, owned, BatchResult(12, changes=[change]))
    assert states(tables, ids[1:]) == [becomes]
    assert repository.head(here).parked


def test_only_what_is_parked_waits_for_its_key_in_a_sequential_queue(tables, owned):
    """What its head has passed is open before others of its key, and stops none of them."""
    tables.configure(keeps_keys_in_order=False, sequential=True)
    repository = tables.repository()
    owned.has_parked = True
    overdue = failed(9, b"k", ErrorState.RETRY, delay_seconds=0.0)
    news = [held(5, b"k"), held(8, b"k"), overdue, failed(12, b"x"), held(6, b"y")]
    ids = fail(repository, owned, *news, failed(7, b"y"))
    owned.next_offset = 13
    for id_ in (ids[1], ids[5]):
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == [8, 9, 12]
    assert states(tables, ids[4:]) == ["HOLD", "PARKED"]


def test_released_rows_of_one_key_hide_no_other_in_a_sequential_queue(tables, owned):
    tables.configure(keeps_keys_in_order=False, sequential=True)
    repository = tables.repository()
    ids = fail(repository, owned, *(held(offset, b"k") for offset in (5, 6, 7, 8)), held(9, b"o"))
    owned.next_offset, owned.has_parked = 13, True
    for id_ in ids[1:]:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned, limit=2) == [6, 7]
    tables.alter(ids[1], state=ErrorState.HOLD)
    assert due(repository, owned) == [7, 8, 9]


def test_a_strict_error_queue_lets_nothing_parked_pass_its_key_in_a_sequential_queue(tables, owned):
    tables.strict_error_queue()
    tables.configure(keeps_keys_in_order=False, sequential=True)
    repository = tables.repository()
    owned.has_parked = True
    ids = fail(repository, owned, held(5, b"k"), held(6, b"k"), failed(7, b"k"))
    owned.next_offset = 13
    for id_ in ids[1:]:
        tables.alter(id_, state=ErrorState.READY)
    assert due(repository, owned) == [6]


def test_what_was_parked_has_its_whole_time_for_retries_once_it_is_woken(tables, owned):
    repository = tables.repository()
    ids = fail(repository, owned, held(10, b"k"), failed(11, b"k"))
    tables.alter(ids[1], spent=1)
    tables.later(1_000)
    tables.alter(ids[0], state=ErrorState.RESOLVED)
    repository.wake_parked()
    [row] = repository.due_rows(owned, 10)
    assert (row.id, row.spent) == (ids[1], 1)
    assert row.since_first_seconds < 500
