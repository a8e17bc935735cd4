"""The contract of Repository and UnitOfWork: parts of one batch that commit in any order."""

from dataclasses import replace
from typing import Any

import pytest

from integration.delivery.batch_result import RUNNING, BatchResult, StateChange
from integration.delivery.owned import OpenBatch, Owned
from integration.delivery.ports import LostError, Repository
from integration.policy.states import PartitionState
from tests.contract.repository_world import World
from tests.support.deliveries import a_new_error, a_track


def begun(repository: Repository, owned: Owned, *offsets: int) -> OpenBatch:
    """A batch of records at these offsets, to be worked side by side."""
    number = repository.draw_arrival()
    first, until = owned.next_offset, offsets[-1] + 1
    batch = OpenBatch(arrival=number, first=first, until=until, offsets=offsets)
    owned.open_batch = owned.in_work = batch
    return batch


def close(repository: Repository, owned: Owned, *closed: int, **fields: Any) -> bool:
    """Settle a part of it, as a thread does: what the others have done is not known to it."""
    tracks = [a_track(offset) for offset in closed]
    with repository.work(owned) as work:
        assert owned.in_work is not None
        assert work.arrival == owned.in_work.arrival
        return work.settle(BatchResult(owned.next_offset, closed=closed, tracks=tracks, **fields))


def taken(tables: World) -> Owned:
    """The first partition in the hands of the next run."""
    manager = tables.manager()
    owned = manager.take()[0]
    manager.close(clean=True)
    return owned


@pytest.fixture
def own(tables: World) -> Owned:
    return taken(tables)


def test_the_position_is_the_lowest_offset_that_is_open(tables, own):
    repository = tables.repository()
    begun(repository, own, 11, 12, 14, 17)
    for closed, position in (((14,), 11), ((11,), 12), ((), 12), ((17,), 12), ((12,), 18)):
        assert close(repository, own, *closed)
        assert tables.place().next_offset == position
    assert sorted(offset for _, offset, _ in tables.tracks()) == [11, 12, 14, 17]


def test_the_next_run_knows_what_is_done_and_which_number_the_rest_keeps(tables, own):
    repository = tables.repository()
    batch = begun(repository, own, 10, 11, 12, 13)
    assert close(repository, own, 12)
    assert close(repository, own, 10)
    later = taken(tables)
    assert later.next_offset == 11
    assert later.rest == replace(batch, done={12}, offsets=later.rest.offsets)
    later.rest.offsets = (11, 13)
    later.in_work = later.rest
    assert close(repository, later, 13)
    assert taken(tables).rest.done == {12, 13}
    own.epoch = later.epoch = taken(tables).epoch
    assert close(repository, later, 11)
    assert (tables.place().next_offset, taken(tables).rest) == (14, None)


def test_a_rest_that_is_read_in_portions_stays_one_batch(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12, 13)
    assert close(repository, own, 12)
    own.in_work.offsets = (10, 11)
    assert close(repository, own, 11, 10)
    later = taken(tables)
    assert (later.next_offset, later.rest.until, later.rest.done) == (12, 14, {12})


def test_a_new_batch_knows_nothing_of_what_an_earlier_one_has_done(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12)
    assert close(repository, own, 12)
    # As the position goes on where what was open has expired.
    assert repository.state(own, RUNNING, 13)
    own.next_offset = 13
    begun(repository, own, 13, 14, 15)
    assert close(repository, own, 15)
    assert taken(tables).rest.done == {15}


def test_a_part_is_refused_when_the_partition_is_somebody_elses(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12)
    assert close(repository, own, 11)
    taken(tables)
    assert not close(repository, own, 10)
    assert (tables.place().next_offset, len(tables.tracks())) == (10, 1)


def test_a_part_is_refused_when_the_position_is_not_in_the_batch(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12)
    for position in (9, 14):
        tables.put(next_offset=position)
        assert not close(repository, own, 11)
    assert tables.tracks() == []


def test_no_part_closes_what_lies_at_a_stop_or_beyond(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12, 13)
    tables.put(stop_at=12)
    assert not close(repository, own, 10, 13)
    assert not close(repository, own, 12)
    assert close(repository, own, 11)
    assert close(repository, own, 10)
    assert tables.place().next_offset == 12


def test_a_part_that_is_stopped_writes_why_wherever_the_others_are(tables, own):
    repository = tables.repository()
    begun(repository, own, 10, 11, 12)
    assert close(repository, own, 10)
    outage = StateChange(state=PartitionState.OUTAGE, code="DOWN", resume_seconds=5.0, probes=1)
    assert close(repository, own, 11, state=outage)
    place = tables.place()
    assert (place.next_offset, place.state, place.state_code) == (12, "OUTAGE", "DOWN")


def test_failures_of_a_part_have_the_number_of_the_batch(tables, own):
    repository = tables.repository()
    batch = begun(repository, own, 10, 11, 12)
    new = a_new_error(12, delay_seconds=0.0)
    assert close(repository, own, 12, new_errors=[new])
    own.in_work = None
    [row] = repository.due_rows(own, 10)
    assert (row.arrival_batch, row.arrival_index) == (batch.arrival, 12)
    # What has failed is through as well.
    assert taken(tables).rest.done == {12}


@pytest.mark.parametrize("happened", [True, False])
def test_a_part_whose_answer_is_lost_is_known_by_whether_it_was_committed(tables, own, happened):
    repository = tables.repository()
    begun(repository, own, 10, 11)
    assert close(repository, own, 10)
    tables.break_commit(repository, happened=happened)
    if happened:
        assert close(repository, own, 11)
    else:
        with pytest.raises(LostError):
            close(repository, own, 11)
    assert tables.place().next_offset == (12 if happened else 11)


def test_deaths_within_one_batch_count_although_the_position_moves(tables):
    repository = tables.repository()
    for ends, closed in enumerate([(10,), (11,), (12,)]):
        manager = tables.manager()
        owned = manager.take()[0]
        assert owned.unclean_ends == ends
        if owned.rest is None:
            begun(repository, owned, 10, 11, 12, 13, 14)
        else:
            owned.rest.offsets = range(owned.next_offset, 15)
            owned.in_work = owned.rest
        assert close(repository, owned, *closed)
        tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    owned.in_work = owned.rest
    owned.rest.offsets = (13, 14)
    assert close(repository, owned, 13, 14)
    tables.die(manager)
    # It has come through.
    assert tables.manager().take()[0].unclean_ends == 1
