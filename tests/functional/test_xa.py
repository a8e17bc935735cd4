"""Transactions over several resources that pooled connections take part in."""

import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now
from transaction import TransactionManager
from transaction.interfaces import TransactionFailedError

from integration import connections
from integration.models import ConnectionFactory, Provider, XaBranch, XaDecision
from integration.policy.states import BranchState
from integration.xa.branch import Vote
from integration.xa.errors import (
    XaDuplicateError,
    XaError,
    XaHeuristicCommitError,
    XaHeuristicRollbackError,
    XaOffError,
    XaProtocolError,
    XaRolledBackError,
    XaSideLostError,
    XaTimedOutError,
    XaTopicMissingError,
    XaTopicUnsafeError,
    XaUnknownError,
)
from integration.xa.recovery import recover
from integration.xa.resource import XaResource
from integration.xa.xid import Xid
from tests.support.kafka_world import Kafka
from tests.support.xa import LOGS, a_factory, read

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers):
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


@pytest.fixture
def topic(broker, log):
    a_factory(broker, log)
    return broker.topic()


@pytest.fixture
def log():
    """Both have the same contract: what is told here of one of them is true of the other."""
    return "topic"


def prepared(topic: str, *values: bytes) -> Xid:
    resource, xid = connections.lookup("payments").xa(), Xid.fresh(1, b"here")
    resource.start(xid)
    for value in values:
        resource.send(xid, topic, value, b"key", [("tenant", b"north")])
    resource.end(xid)
    assert resource.prepare(xid) is Vote.READY
    return xid


def test_a_branch_is_visible_once_it_is_committed(broker, topic):
    resource = connections.lookup("payments").xa()
    xid = prepared(topic, b"1", b"2", b"3")
    assert read(broker, topic) == []
    assert [(b.xid, b.state) for b in resource.recover()] == [(xid, BranchState.PREPARED)]
    resource.commit(xid)
    assert read(broker, topic) == [1, 2, 3]
    record = broker.read_all(topic)[0]
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


def fail_in(factory: connections.Factory, topic: str) -> None:
    with factory.atomic() as session:
        session.send(topic, {"n": 2}, key="k")
        Provider.objects.create(name="two", bootstrap_servers="x:1")
        raise ValueError("bad")


@pytest.mark.parametrize("log", LOGS)
def test_the_database_and_kafka_commit_together(broker, topic):
    factory = connections.lookup("payments")
    with factory.atomic() as session:
        session.send(topic, {"n": 1}, key="k")
        Provider.objects.create(name="one", bootstrap_servers="x:1")
    assert read(broker, topic) == [{"n": 1}]
    with pytest.raises(ValueError, match="bad"):
        fail_in(factory, topic)
    assert read(broker, topic) == [{"n": 1}]
    assert Provider.objects.filter(name__in=["one", "two"]).count() == 1
    assert not XaDecision.objects.exists()
    assert not XaBranch.objects.exists()


def elsewhere() -> XaResource:
    """The resource of another process, which knows what the log knows."""
    row = ConnectionFactory.objects.get(name="payments")
    factory = connections.Factory(row)
    return factory.xa()


@pytest.fixture
def other(topic):
    resource = elsewhere()
    yield resource
    resource.close()


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
    xids = [prepared(topic, b"%d" % n) for n in range(3)]
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
    assert read(broker, topic) == [0, 1, 2]
    assert ends.count("done") == 3, ends
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


def test_messages_that_the_side_topic_has_forgotten_are_told_and_nothing_is_delivered(
    broker, topic
):
    resource = connections.lookup("payments").xa()
    xid = prepared(topic, b"1", b"2")
    [branch] = resource.recover()
    side = ConnectionFactory.objects.get().xa_side_topic
    broker.delete_records(side, branch.place.last, branch.place.partition)
    with pytest.raises(XaSideLostError):
        resource.commit(xid)
    assert read(broker, topic) == []
    assert [branch.state for branch in resource.recover()] == ["PREPARED"]
    resource.rollback(xid)


def test_what_kafka_refuses_rolls_the_branch_back(broker, topic):
    small = broker.topic(**{"max.message.bytes": "2000"})
    ConnectionFactory.objects.update(xa_side_topic=small, changed_at=Now())
    with pytest.raises(XaRolledBackError):
        send_too_much(connections.lookup("payments"), topic)
    assert not Provider.objects.filter(name="one").exists()
    assert connections.lookup("payments").xa().recover() == []


def send_too_much(factory: connections.Factory, topic: str) -> None:
    with factory.atomic() as session:
        Provider.objects.create(name="one", bootstrap_servers="x:1")
        session.send(topic, secrets.token_bytes(5_000))


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


def test_a_decision_whose_answer_was_lost_is_found_out(broker, topic):
    """The session dies as the database has committed, so that Django is told of an error."""
    factory = connections.lookup("payments")

    def lose() -> None:
        raise OperationalError("the answer is lost")

    def send() -> None:
        with factory.atomic() as session:
            session.send(topic, {"n": 1})
            transaction.on_commit(lose)

    with pytest.raises(OperationalError):
        send()
    assert read(broker, topic) == [{"n": 1}]
    assert not XaDecision.objects.exists()
    assert factory.xa().recover() == []


@pytest.mark.parametrize("log", LOGS)
def test_a_branch_is_left_alone_while_its_database_transaction_is_open(broker, topic, other):
    factory = connections.lookup("payments")

    def look(step: str) -> None:
        if step == "prepared":
            seen.append(in_a_thread(lambda: recover(other)))

    seen: list[object] = []
    factory.xa().observe(look)
    with factory.atomic() as session:
        session.send(topic, {"n": 1})
    assert seen == [{"open": 1}]
    assert read(broker, topic) == [{"n": 1}]


def in_a_thread(call: Callable[[], object]) -> object:
    def run() -> object:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as one:
        return one.submit(run).result(60)


def test_branches_of_other_coordinators_are_left_to_them(broker, topic):
    xid = prepared(topic, b"1")
    XaDecision.objects.create(xid=str(Xid.fresh(1)), factory="payments", decided_at=Now())
    assert connections.recover_all() == {"foreign": 1}
    assert not XaDecision.objects.exists()
    connections.lookup("payments").xa().rollback(xid)


def test_the_package_transaction_coordinates_it(broker, topic):
    factory, manager = connections.lookup("payments"), TransactionManager()
    with manager:
        session, second = factory.join(manager, "default"), factory.join(manager, "default")
        Provider.objects.create(name="one", bootstrap_servers="x:1")
        session.send(topic, {"n": 1})
        second.send(topic, {"n": 2})
    assert sorted(each["n"] for each in read(broker, topic)) == [1, 2]
    with pytest.raises(ValueError, match="bad"):
        fail_in_the_package(manager, factory, topic)
    with pytest.raises(TransactionFailedError):
        factory.join(manager, "default")
    assert not connection.in_atomic_block
    manager.begin()
    factory.join(manager, "default").send(topic, {"n": 5})
    manager.abort()
    with manager:
        factory.join(manager).send(topic, {"n": 4})
    assert sorted(each["n"] for each in read(broker, topic)) == [1, 2, 4]
    assert set(Provider.objects.values_list("name", flat=True)) == {"main", "one"}
    assert not XaDecision.objects.exists()
    assert factory.xa().recover() == []


def fail_in_the_package(manager, factory: connections.Factory, topic: str) -> None:
    with manager:
        factory.join(manager, "default").send(topic, {"n": 3})
        Provider.objects.create(name="two", bootstrap_servers="x:1")
        manager.get().join(Refusing())


class Refusing:
    """A resource that votes no, after all others have voted yes."""

    transaction_manager = None

    def abort(self, _transaction): ...

    tpc_begin = commit = tpc_finish = tpc_abort = abort

    def tpc_vote(self, _transaction):
        raise ValueError("bad")

    def sortKey(self):  # noqa: N802 - the interface's own name
        return "~~last"
