"""Branches by the calls of XA, whoever coordinates them."""

import threading

import pytest

from integration import connections
from integration.models import ConnectionFactory, XaBranch
from integration.policy.states import BranchState
from integration.xa.branch import Vote
from integration.xa.errors import (
    XaDuplicateError,
    XaError,
    XaHeuristicCommitError,
    XaHeuristicRollbackError,
    XaOffError,
    XaProtocolError,
    XaSideLostError,
    XaTimedOutError,
    XaTopicMissingError,
    XaTopicUnsafeError,
    XaUnknownError,
)
from integration.xa.resource import XaResource
from integration.xa.xid import Xid
from tests.support.xa import (  # noqa: F401 - fixtures are found by their names
    LOGS,
    a_factory,
    given_broker,
    given_log,
    given_other,
    given_topic,
    prepared,
    read,
    records,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def test_a_branch_is_visible_once_it_is_committed(broker, topic):
    resource = connections.lookup("payments").xa()
    xid = prepared(topic, b"1", b"2", b"3")
    assert read(broker, topic) == []
    assert [(b.xid, b.state) for b in resource.recover()] == [(xid, BranchState.PREPARED)]
    resource.commit(xid)
    assert read(broker, topic) == [1, 2, 3]
    record = records(broker, topic)[0]
    assert (record.key(), record.headers()) == (b"key", [("tenant", b"north")])
    assert resource.recover() == []
    with pytest.raises(XaUnknownError):
        resource.commit(xid)


def test_what_is_rolled_back_is_never_visible(broker, topic):
    resource = connections.lookup("payments").xa()
    xid = prepared(topic, b"1")
    resource.rollback(xid)
    assert resource.recover() == []
    resource.start(xid)
    resource.send(xid, topic, b"2")
    resource.rollback(xid)
    assert read(broker, topic) == []


def test_another_process_ends_what_one_has_prepared(broker, topic, other):
    xid, second = prepared(topic, b"1"), prepared(topic, b"2")
    other.commit(xid)
    other.rollback(second)
    resource = connections.lookup("payments").xa()
    with pytest.raises(XaUnknownError):
        resource.commit(xid)
    with pytest.raises(XaUnknownError):
        resource.rollback(second)
    assert read(broker, topic) == [1]


@pytest.mark.parametrize("log", LOGS)
def test_of_two_that_commit_at_once_one_delivers(broker, topic, other):
    resource = connections.lookup("payments").xa()
    xids = [prepared(topic, b"%d" % n) for n in range(2)]
    ends: list[str] = []

    def commit(by: XaResource, xid: Xid) -> None:
        try:
            by.commit(xid)
            ends.append("done")
        except XaError as e:
            ends.append(e.xa)

    for xid in xids:
        both = [threading.Thread(target=commit, args=(by, xid)) for by in (resource, other)]
        for thread in both:
            thread.start()
        for thread in both:
            thread.join(60)
    assert read(broker, topic) == [0, 1]
    assert ends.count("done") == 2, ends
    assert set(ends) <= {"done", "XAER_NOTA", "XAER_RMFAIL"}


def test_who_sent_nothing_has_no_second_phase_and_one_phase_needs_no_first(broker, topic):
    resource, xid = connections.lookup("payments").xa(), Xid.fresh(1)
    resource.start(xid)
    resource.end(xid)
    assert resource.prepare(xid) is Vote.READ_ONLY
    resource.start(xid)
    resource.send(xid, topic, b"1")
    resource.end(xid)
    with pytest.raises(XaProtocolError):
        resource.commit(xid)
    resource.commit(xid, one_phase=True)
    assert read(broker, topic) == [1]
    assert resource.recover() == []


def test_calls_that_do_not_fit_are_refused(broker, topic, other):
    resource, xid = connections.lookup("payments").xa(), Xid.fresh(1)
    for call in (resource.end, resource.forget, resource.prepare, resource.rollback):
        with pytest.raises((XaProtocolError, XaUnknownError)):
            call(xid)
    resource.start(xid)
    with pytest.raises(XaDuplicateError):
        resource.start(xid)
    with pytest.raises(XaProtocolError):
        resource.prepare(xid)
    resource.send(xid, topic, b"1")
    resource.end(xid)
    with pytest.raises(XaProtocolError):
        resource.send(xid, topic, b"2")
    with pytest.raises(XaDuplicateError):
        other.start(xid)
    with pytest.raises(XaProtocolError):
        resource.decide(xid, commit=True)
    resource.prepare(xid)
    with pytest.raises(XaProtocolError):
        resource.forget(xid)


@pytest.mark.parametrize("log", LOGS)
def test_a_started_branch_expires_and_a_prepared_one_does_not(broker, topic, other):
    resource, xid = connections.lookup("payments").xa(), Xid.fresh(1)
    kept = prepared(topic, b"1")
    resource.start(xid)
    resource.send(xid, topic, b"2")
    resource.end(xid)
    assert [branch.state for branch in other.recover()] == ["PREPARED", "STARTED"]
    other.timeout = 0.0
    assert [branch.xid for branch in other.recover()] == [kept]
    with pytest.raises(XaUnknownError):
        resource.prepare(xid)
    resource.timeout = 0.0
    late = Xid.fresh(1)
    resource.start(late)
    resource.send(late, topic, b"3")
    resource.end(late)
    with pytest.raises(XaTimedOutError):
        resource.prepare(late)
    assert [branch.xid for branch in other.recover()] == [kept]


def test_what_a_person_decided_is_told_to_the_coordinator_until_it_forgets(broker, topic, other):
    resource = connections.lookup("payments").xa()
    committed, rolled_back = prepared(topic, b"1"), prepared(topic, b"2")
    other.decide(committed, commit=True)
    other.decide(rolled_back, commit=False)
    for end in (resource.commit, resource.rollback):
        with pytest.raises(XaHeuristicCommitError):
            end(committed)
        with pytest.raises(XaHeuristicRollbackError):
            end(rolled_back)
    assert read(broker, topic) == [1]
    resource.forget(committed)
    resource.forget(rolled_back)
    assert resource.recover() == []


@pytest.mark.parametrize("log", LOGS)
def test_messages_that_the_side_topic_has_forgotten_are_told_and_nothing_is_delivered(
    broker, topic, other
):
    resource = connections.lookup("payments").xa()
    xid, second = prepared(topic, b"1", b"2"), prepared(topic, b"3")
    side = ConnectionFactory.objects.get().xa_side_topic
    for branch in resource.recover():
        # Of the first a part, of the second also what could tell of its delivery.
        before = branch.place.last + (3 if branch.xid == second else 0)
        broker.send(side, [None] * 3, partition=branch.place.partition)
        broker.delete_records(side, before, branch.place.partition)
    for by in (resource, other):
        for lost in (xid, second):
            with pytest.raises(XaSideLostError):
                by.commit(lost)
    assert read(broker, topic) == []
    assert [branch.state for branch in resource.recover()] == ["PREPARED", "PREPARED"]
    other.rollback(xid)
    other.rollback(second)
    assert resource.recover() == []


@pytest.mark.parametrize("log", ["database"])
def test_a_database_that_was_restored_delivers_nothing_again(broker, topic, other):
    xid = prepared(topic, b"1")
    row = XaBranch.objects.get()
    connections.lookup("payments").xa().commit(xid)
    assert not XaBranch.objects.exists()
    row.save(force_insert=True)
    with pytest.raises(XaUnknownError):
        other.commit(xid)
    assert read(broker, topic) == [1]
    assert not XaBranch.objects.exists()


@pytest.mark.parametrize(
    ("field", "settings", "error"),
    [
        ("xa_log_topic", None, XaTopicMissingError),
        ("xa_side_topic", None, XaTopicMissingError),
        ("xa_log_topic", {"cleanup.policy": "delete"}, XaTopicUnsafeError),
        ("xa_log_topic", {"cleanup.policy": "compact,delete"}, XaTopicUnsafeError),
        ("xa_side_topic", {"cleanup.policy": "compact"}, XaTopicUnsafeError),
    ],
)
def test_topics_that_lose_branches_are_told_before_anything_is_sent(broker, field, settings, error):
    name = "gone" if settings is None else broker.topic(**settings)
    a_factory(broker, **{field: name})
    with pytest.raises(error):
        connections.lookup("payments").xa().start(Xid.fresh(1))


def test_a_factory_without_a_log_takes_no_part(broker):
    a_factory(broker, "off")
    with pytest.raises(XaOffError):
        connections.lookup("payments").xa()
