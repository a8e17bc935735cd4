"""Branches whose end goes wrong halfway: what was done is not done again, and nothing is leaked."""

import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from django.db import connection

from integration import connections
from integration.kafka.errors import BrokerUnreachableError
from integration.models import XaDecision
from integration.xa.branch import Branch
from integration.xa.errors import XaUnknownError
from integration.xa.resource import XaResource
from integration.xa.steps import XaStep, unobserved
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


class Deaf:
    """A producer that hears nothing of the answer to its first commit."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        self._producer.commit_transaction(seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))


class Flapping:
    """A log that cannot be reached when it is looked at first."""

    def __init__(self, log: Any) -> None:
        self._log, self._is_away = log, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def find_fenced(self, xid: Xid) -> Branch | None:
        if self._is_away:
            self._is_away = False
            raise BrokerUnreachableError("main", "it flaps")
        found: Branch | None = self._log.find_fenced(xid)
        return found


@pytest.mark.parametrize("log", LOGS)
def test_a_commit_that_nobody_heard_of_is_not_made_again(broker, topic):
    """Its answer is lost, then the network fails once more, when it is looked what happened."""
    resource, xid = connections.lookup("payments").xa(), prepared(topic, b"1")
    slot = resource._active[xid].slot
    slot._producer = Deaf(slot._producer)
    resource._log = Flapping(resource._log)
    with pytest.raises(BrokerUnreachableError):
        resource.commit(xid)
    with pytest.raises(XaUnknownError):
        resource.commit(xid)
    assert read(broker, topic) == [1]
    assert resource.recover() == []


@pytest.mark.parametrize("log", LOGS)
def test_who_fails_after_another_has_delivered_finds_that_out(broker, topic, other):
    """The other one has shut it out, so that it cannot take back what it had begun."""
    resource, xid = connections.lookup("payments").xa(), prepared(topic, b"1")

    def meddle(step: XaStep) -> None:
        if step is XaStep.COPIED:
            resource.observe(unobserved)
            other.commit(xid)
            raise BrokerUnreachableError("main", "it flaps")

    resource.observe(meddle)
    with pytest.raises(BrokerUnreachableError):
        resource.commit(xid)
    with pytest.raises(XaUnknownError):
        resource.commit(xid)
    assert read(broker, topic) == [1]


@pytest.mark.parametrize("log", LOGS)
def test_of_two_threads_that_commit_a_branch_one_delivers(broker, topic):
    """The second comes while the first is at it: a recovery in the application's own process."""
    factory = connections.lookup("payments")
    resource, xid = factory.xa(), prepared(topic, b"1")
    ends: list[str] = []

    def commit() -> None:
        try:
            resource.commit(xid)
            ends.append("done")
        except XaUnknownError as problem:
            ends.append(problem.xa)
        finally:
            connection.close()

    second = threading.Thread(target=commit)

    def meddle(step: XaStep) -> None:
        if step is XaStep.COPIED:
            resource.observe(unobserved)
            second.start()
            # It has nothing to wait for but its turn.
            second.join(0.3)

    resource.observe(meddle)
    commit()
    second.join(60)
    assert read(broker, topic) == [1]
    assert sorted(ends) == ["XAER_NOTA", "done"]
    assert factory.leases() == []


@pytest.mark.parametrize("log", LOGS)
def test_a_branch_is_not_expired_while_it_is_being_prepared(broker, topic):
    """A recovery of the same process has seen it started, and comes when it is prepared."""
    resource, xid = connections.lookup("payments").xa(), Xid.fresh(1)
    resource.start(xid)
    resource.send(xid, topic, b"1")
    resource.end(xid)
    [started] = resource.recover()
    active, late = resource._active[xid], threading.Thread(target=expire, args=(resource, started))
    active.turn = LetsIn(active.turn, late)
    resource.prepare(xid)
    late.join(60)
    assert [branch.state for branch in resource.recover()] == ["PREPARED"]
    resource.commit(xid)
    assert read(broker, topic) == [1]


class LetsIn:
    """A turn during which a thread comes, and has its own before anything else happens."""

    def __init__(self, turn: Any, waits: threading.Thread) -> None:
        self._turn, self._waits = turn, waits

    def __enter__(self) -> None:
        self._turn.acquire()
        if threading.current_thread() is not self._waits:
            self._waits.start()

    def __exit__(self, *_raised: object) -> None:
        self._turn.release()
        if threading.current_thread() is not self._waits:
            self._waits.join(20)


def expire(resource: XaResource, branch: Branch) -> None:
    try:
        resource._expire(branch)
    finally:
        connection.close()


def deleted_when(broker, factory: connections.Factory, topic: str, at: XaStep) -> None:
    def delete(step: XaStep) -> None:
        if step is at:
            broker.delete(topic)

    factory.xa().observe(delete)


@pytest.mark.parametrize("log", LOGS)
def test_what_is_left_to_recovery_holds_no_connection(broker, topic):
    factory = connections.lookup("payments")
    deleted_when(broker, factory, topic, XaStep.PREPARED)
    with factory.atomic() as session:
        session.send(topic, {"n": 1})
    assert factory.leases() == []
    assert [branch.state for branch in factory.xa().recover()] == ["PREPARED"]


def test_a_side_topic_that_forgets_behind_the_decision_is_no_error(broker, topic):
    factory = connections.lookup("payments")
    side = factory._row.xa_side_topic

    def forget(step: XaStep) -> None:
        if step is XaStep.DECIDED:
            [branch] = factory.xa().branches()
            place = branch.place
            broker.delete_records(side, place.last + 1, place.partition)

    factory.xa().observe(forget)
    with factory.atomic() as session:
        session.send(topic, {"n": 1})
    assert XaDecision.objects.count() == 1
    assert factory.leases() == []
