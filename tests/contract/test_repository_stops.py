"""The contract of Repository and UnitOfWork: no commit goes beyond a person's stop."""

from dataclasses import replace

import pytest

from integration.delivery.batch_result import RUNNING, BatchResult
from integration.delivery.sending.values import Dispatch, Intent
from integration.store.circuits import DatabaseCircuits
from tests.contract.repository_worlds import MemoryWorld
from tests.support.deliveries import a_batch_result, a_new_error, a_unit, settle
from tests.support.partners import an_endpoint


def refused(repository, owned, batch_result: BatchResult) -> bool:
    with repository.work(owned) as work:
        return not work.settle(batch_result)


def test_a_commit_goes_up_to_a_stop_and_no_further(tables, owned):
    repository = tables.repository()
    tables.put(stop_at=12)
    assert refused(repository, owned, a_batch_result(13, 10, 11, 12))
    assert (tables.place().next_offset, tables.tracks()) == (10, [])
    settle(repository, owned, a_batch_result(12, 10, 11))
    assert refused(repository, owned, a_batch_result(13, 12))
    # What does not move the position is settled as before.
    settle(repository, owned, BatchResult(12, new_errors=[a_new_error(11)]))
    assert (tables.place().next_offset, tables.rows()) == (12, 1)


def test_a_position_beyond_its_stop_goes_no_further_either(tables, owned):
    """It came there over offsets without a record; rows are settled all the same."""
    repository = tables.repository()
    tables.put(stop_at=12)
    assert repository.state(owned, RUNNING, 14)
    owned.next_offset = 14
    settle(repository, owned, BatchResult(14, new_errors=[a_new_error(11)]))
    assert refused(repository, owned, a_batch_result(15, 14))


def test_stops_are_read_for_what_is_still_as_it_was_left(tables):
    repository = tables.repository()
    first, second = tables.manager().take()
    assert (first.stop_at, second.stop_at) == (None, None)
    tables.put(stop_at=12)
    tables.put(1, stop_at=10)
    fenced = replace(second, epoch=second.epoch - 1)
    assert repository.read_stops([first, fenced]) == {first.id}
    assert (first.stop_at, fenced.stop_at) == (12, None)
    assert repository.read_stops([first, second]) == {first.id, second.id}
    assert (first.at_stop, second.at_stop) == (False, True)
    tables.put(stop_at=None)
    repository.read_stops([first])
    assert first.stop_at is None
    first.next_offset = 11
    assert repository.read_stops([first]) == frozenset()
    assert repository.read_stops([]) == frozenset()


def test_a_later_owner_knows_the_stop(tables):
    tables.put(1, stop_at=17)
    assert [owned.stop_at for owned in tables.manager().take()] == [None, 17]


def test_the_queue_is_paused_once_no_partition_stands_before_its_stop(tables):
    repository = tables.repository()
    first, second = tables.manager().take()
    assert not repository.pause_at_stops(first)
    tables.put(stop_at=11)
    tables.put(1, stop_at=10)
    assert not repository.pause_at_stops(second)
    settle(repository, first, a_batch_result(11, 10))
    assert not repository.pause_at_stops(replace(first, epoch=first.epoch - 1))
    assert not repository.snapshot().paused
    assert repository.pause_at_stops(first)
    assert repository.snapshot().paused
    assert not repository.pause_at_stops(second)


@pytest.mark.parametrize("is_more", [False, True])
def test_no_call_is_meant_for_what_lies_beyond_a_stop(tables, owned, is_more):
    """Neither in the one statement of an ordinary commit nor where there is more to write."""
    endpoint = 7 if isinstance(tables, MemoryWorld) else an_endpoint().pk
    known = tables.database.circuits if isinstance(tables, MemoryWorld) else DatabaseCircuits()
    known.look(endpoint)
    repository = tables.repository()
    tables.put(stop_at=11)
    before, beyond = Intent(a_unit(10), endpoint), Intent(a_unit(11), endpoint)
    new_errors = [a_new_error(9)] if is_more else []
    result = BatchResult(10, new_errors=new_errors, dispatch=Dispatch(intents=[before, beyond]))
    if repository.settle_at_once(owned, result) is None:
        settle(repository, owned, result)
    assert before.id is not None
    assert beyond.id is None
    # Whoever takes the partition next is in doubt about the first one alone.
    assert list(repository.past(replace(owned, epoch=owned.epoch + 1)).doubts) == [10]


def test_an_ordinary_commit_of_sending_stops_there_too(tables, owned):
    repository = tables.repository()
    tables.put(stop_at=11)
    result = a_batch_result(12, 10, 11, dispatch=Dispatch())
    done = repository.settle_at_once(owned, result)
    assert not done
    assert tables.place().next_offset == 10
