"""The contract of crash suspects where offsets are made up, in memory and on PostgreSQL."""

import pytest

from integration.delivery.batch_result import BatchResult
from tests.support.deliveries import a_batch_result, a_unit, settle


def test_another_message_that_a_jms_broker_sends_in_the_place_of_a_suspect_is_none(tables):
    killer, other = tables.repository(lambda _: b"killer"), tables.repository(lambda _: b"other")
    for _ in range(2):
        manager = tables.manager()
        assert killer.mark(manager.take()[0], a_unit(10))
        tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    assert (owned.suspect_offset, owned.suspect_crashes) == (10, 2)
    assert [one.is_suspect(owned, a_unit(10)) for one in (killer, other)] == [True, False]
    assert other.mark(owned, a_unit(10))
    tables.die(manager)
    owned = tables.manager().take()[0]
    assert (owned.suspect_crashes, killer.is_suspect(owned, a_unit(10))) == (1, False)


def test_a_suspect_that_a_jms_broker_sends_in_another_place_is_the_same(tables):
    killer = tables.repository(lambda _: b"killer")
    for at in (10, 12, 11):
        manager = tables.manager()
        assert killer.mark(manager.take()[0], a_unit(at))
        tables.die(manager)
    owned = tables.manager().take()[0]
    assert owned.suspect_crashes == 3
    assert all(killer.is_suspect(owned, a_unit(at)) for at in (10, 11, 12))


def test_the_crashes_of_a_suspect_stay_counted_though_others_are_marked_before_it(tables):
    killer, other = tables.repository(lambda _: b"killer"), tables.repository(lambda _: b"other")
    for expected in (0, 1, 2):
        manager = tables.manager()
        owned = manager.take()[0]
        assert owned.suspect_crashes == expected
        assert other.mark(owned, a_unit(10))
        assert killer.mark(owned, a_unit(11))
        tables.die(manager)
    owned = tables.manager().take()[0]
    assert (owned.suspect_crashes, killer.is_suspect(owned, a_unit(12))) == (3, True)


def test_a_suspect_without_a_receipt_is_known_by_its_offset(tables):
    repository, manager = tables.repository(), tables.manager()
    assert repository.mark(manager.take()[0], a_unit(10))
    tables.die(manager)
    owned = tables.manager().take()[0]
    assert [repository.is_suspect(owned, a_unit(at)) for at in (9, 10, 11)] == [False, True, False]


def test_a_run_that_dies_before_it_has_marked_anything_counts_for_no_suspect(tables):
    repository, manager = tables.repository(), tables.manager()
    assert repository.mark(manager.take()[0], a_unit(12))
    tables.die(manager)
    for _ in range(2):
        manager = tables.manager()
        owned = manager.take()[0]
        assert (owned.suspect_offset, owned.suspect_crashes) == (12, 1)
        tables.die(manager)


@pytest.mark.parametrize("gives_up", [False, True])
def test_the_crashes_of_a_suspect_stay_counted_though_a_run_ends_before_it_comes_to_it(
    tables, gives_up
):
    repository, manager = tables.repository(), tables.manager()
    assert repository.mark(manager.take()[0], a_unit(12))
    tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    owned.isolate_until = 20
    assert repository.mark(owned, a_unit(10))
    settle(repository, owned, a_batch_result(11, 10))
    assert repository.mark(owned, a_unit(11))
    if gives_up:
        manager.give_up([owned])
        tables.die(manager)
    else:
        manager.close(clean=True)
    owned = tables.manager().take()[0]
    assert (owned.suspect_offset, owned.suspect_crashes) == (12, 1)
    assert repository.is_suspect(owned, a_unit(12))


@pytest.mark.parametrize("settles", [False, True])
def test_a_jms_brokers_suspect_stays_counted_though_a_run_ends_before_it_was_sent(tables, settles):
    """Others have got the offset that it had, and are through."""
    killer, other = tables.repository(lambda _: b"killer"), tables.repository(lambda _: b"other")
    manager = tables.manager()
    assert killer.mark(manager.take()[0], a_unit(10))
    tables.die(manager)
    for offset in (10, 11):
        manager = tables.manager()
        owned = manager.take()[0]
        assert (owned.suspect_crashes, killer.is_suspect(owned, a_unit(offset))) == (1, True)
        owned.isolate_until = 20
        assert other.mark(owned, a_unit(owned.next_offset))
        if settles:
            settle(other, owned, a_batch_result(owned.next_offset + 1, owned.next_offset))
        manager.close(clean=True)
    owned = tables.manager().take()[0]
    assert (owned.suspect_crashes, killer.is_suspect(owned, a_unit(12))) == (1, True)


def test_a_suspect_that_is_through_is_none_any_more_whatever_is_marked_behind_it(tables):
    killer, other = tables.repository(lambda _: b"killer"), tables.repository(lambda _: b"other")
    manager = tables.manager()
    assert killer.mark(manager.take()[0], a_unit(10))
    tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    owned.isolate_until = 20
    assert killer.mark(owned, a_unit(10))
    settle(killer, owned, a_batch_result(11, 10))
    assert other.mark(owned, a_unit(11))
    manager.close(clean=True)
    owned = tables.manager().take()[0]
    assert (owned.suspect_offset, owned.suspect_crashes) == (None, 0)


@pytest.mark.parametrize("beyond", [False, True])
def test_a_suspect_that_a_jms_broker_sends_no_more_is_looked_for_in_one_batch(tables, beyond):
    killer, other = tables.repository(lambda _: b"killer"), tables.repository(lambda _: b"other")
    manager = tables.manager()
    assert killer.mark(manager.take()[0], a_unit(10))
    tables.die(manager)
    manager = tables.manager()
    owned = manager.take()[0]
    owned.isolate_until = 10 + tables.queue.batch_size
    assert other.mark(owned, a_unit(10))
    settle(other, owned, BatchResult(owned.isolate_until + beyond))
    manager.close(clean=True)
    assert tables.manager().take()[0].suspect_crashes == (0 if beyond else 1)
