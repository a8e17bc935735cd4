"""The contract of crash suspects where offsets are made up, in memory and on PostgreSQL."""

from tests.support.deliveries import a_unit


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
