"""Branches that Django's transactions and the package `transaction` coordinate."""

import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import OperationalError, connection, transaction
from django.db import connections as databases
from django.db.models.functions import Now
from django.db.transaction import TransactionManagementError
from transaction import TransactionManager
from transaction.interfaces import TransactionFailedError

from integration import connections
from integration.models import ConnectionFactory, Provider, XaBranch, XaDecision
from integration.store.sessions import raw_connection
from integration.xa.decisions import fresh_xid
from integration.xa.errors import (
    XaRolledBackError,
)
from integration.xa.recovery import recover
from integration.xa.xid import Xid
from tests.support.xa import (  # noqa: F401 - fixtures are found by their names
    LOGS,
    given_broker,
    given_log,
    given_other,
    given_topic,
    prepared,
    read,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


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


@pytest.mark.parametrize("log", LOGS)
def test_a_connection_that_changes_rolls_open_transactions_back(broker, topic):
    """Recovery would look for the branch elsewhere, and take its decision for an old one."""
    factory, manager = connections.lookup("payments"), TransactionManager()

    def change(**fields: object) -> None:
        values = {**fields, "changed_at": Now()}
        in_a_thread(lambda: ConnectionFactory.objects.update(**values))

    def send(**fields: object) -> None:
        with factory.atomic() as session:
            session.send(topic, {"n": 1})
            change(**fields)

    def send_in_the_package(**fields: object) -> None:
        with manager:
            factory.join(manager, "default").send(topic, {"n": 2})
            change(**fields)

    send(most=9)
    for call in (send, send_in_the_package):
        with pytest.raises(XaRolledBackError, match="look it up again"):
            call(xa_side_topic="another")
    assert read(broker, topic) == [{"n": 1}]
    assert (factory.xa().branches(), factory.leases()) == ([], [])
    assert not XaDecision.objects.exists()


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


@pytest.mark.parametrize("log", ["topic"])
def test_a_session_that_ends_once_all_is_committed_is_no_error(broker, topic):
    """Whoever got one would do it all again. What is left to forget, recovery forgets."""
    factory = connections.lookup("payments")

    def end_session(step: str) -> None:
        if step == "copied":
            with raw_connection("killer") as killer:
                pid = connection.connection.info.backend_pid
                killer.execute("SELECT pg_terminate_backend(%s)", [pid])

    factory.xa().observe(end_session)
    with factory.atomic() as session:
        session.send(topic, {"n": 1})
    connection.close()
    assert read(broker, topic) == [{"n": 1}]
    assert XaDecision.objects.count() == 1
    connections.recover_all()
    assert not XaDecision.objects.exists()


@pytest.mark.parametrize("log", LOGS)
def test_a_branch_is_left_alone_while_its_database_transaction_is_open(broker, topic, other):
    factory = connections.lookup("payments")

    def look(step: str) -> None:
        if step == "prepared":
            seen.append(in_a_thread(lambda: recover(other).counts))

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
    decided(fresh_xid("default"))
    assert connections.recover_all() == {"foreign": 1}
    assert not XaDecision.objects.exists()
    connections.lookup("payments").xa().rollback(xid)


def decided(xid: Xid) -> Xid:
    XaDecision.objects.create(xid=str(xid), factory="payments", decided_at=Now())
    return xid


@contextmanager
def a_database(alias: str, **where: object) -> Iterator[None]:
    """Another database of Django's: the test's own, but for these settings."""
    copied = connection.copy(alias=alias)
    copied.settings_dict |= where

    def connect() -> None:
        if copied.connection is None:
            with copied.wrap_database_errors:
                copied.connect()

    # Django's tests let databases that were not named to them before do nothing else.
    copied.ensure_connection = connect
    databases.settings[alias], databases[alias] = copied.settings_dict, copied
    try:
        yield
    finally:
        copied.close()
        del databases[alias], databases.settings[alias]


@pytest.mark.parametrize("standby", ["another", ""])
def test_a_database_that_is_away_holds_up_no_branch_of_another(broker, topic, settings, standby):
    """The standby is not even asked, and any other only for what it decides itself."""
    settings.SLUICE_REPLICA = standby
    prepared(topic, b"1", xid=decided(fresh_xid("default")))
    over = decided(fresh_xid("default"))
    with a_database("another", HOST="127.0.0.1", PORT="1"):
        assert connections.recover_all() == {"commit": 1}
        assert read(broker, topic) == [1]
        assert not XaDecision.objects.filter(xid=str(over)).exists()


@pytest.mark.parametrize("standby", ["another", ""])
def test_a_decision_is_forgotten_where_it_was_made(broker, topic, settings, standby):
    """A copy of the database shows all of them, and takes no writes."""
    settings.SLUICE_REPLICA = standby
    decided(fresh_xid("default"))
    options = connection.settings_dict["OPTIONS"]
    read_only = f"{options.get('options', '')} -c default_transaction_read_only=on"
    with a_database("another", OPTIONS={**options, "options": read_only}):
        assert connections.recover_all() == {}
    assert not XaDecision.objects.exists()


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


def test_a_database_that_can_only_roll_back_votes_no(broker, topic):
    """Nothing was sent, so that Django's transaction would not be asked for anything before."""
    factory, manager, other = connections.lookup("payments"), TransactionManager(), Counting()
    with pytest.raises(TransactionManagementError):
        mark_in_the_package(manager, factory, other)
    assert other.finished == 0
    assert not connection.in_atomic_block
    manager.begin()
    factory.join(manager, "default")
    manager.get().join(other)
    manager.commit()
    assert other.finished == 1


def mark_in_the_package(manager, factory: connections.Factory, other: "Counting") -> None:
    with manager:
        factory.join(manager, "default")
        manager.get().join(other)
        transaction.set_rollback(True)


class Counting:
    """A resource that says how often it has committed."""

    transaction_manager = None
    finished = 0

    def abort(self, _transaction): ...

    tpc_begin = commit = tpc_vote = tpc_abort = abort

    def tpc_finish(self, _transaction):
        self.finished += 1

    def sortKey(self):  # noqa: N802 - the interface's own name
        return "a resource that is not ours"


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
