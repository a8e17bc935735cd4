"""Transactions over several resources that pooled connections take part in."""

import pytest

from integration import connections
from integration.models import Provider, XaBranch, XaDecision
from integration.policy.states import BranchState
from integration.xa.branch import Vote
from integration.xa.errors import (
    XaUnknownError,
)
from integration.xa.xid import Xid
from tests.support.kafka_world import Kafka
from tests.support.xa import LOGS, a_factory, read

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers):
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


@pytest.fixture(params=LOGS)
def topic(request, broker):
    a_factory(broker, request.param)
    return broker.topic()


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
