"""Connections that applications look up by name: what they send is in Kafka, or they are told."""

import json
import secrets

import pytest

from integration import connections
from integration.models import ConnectionFactory
from tests.support.builders import a_provider
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers):
    yield Kafka(servers.kafka_bootstrap)
    connections.close_all()


def a_factory(broker: Kafka, **fields) -> ConnectionFactory:
    values = {"name": "payments", "wait_seconds": 0.0, "provider": a_provider(broker.bootstrap)}
    factory = ConnectionFactory(**(values | fields))
    factory.full_clean()
    factory.save()
    return factory


def read(broker: Kafka, topic: str, *, decided: bool = True) -> list[object]:
    return [json.loads(record.value()) for record in broker.read_all(topic, decided=decided)]


def send(topic: str, *values: object) -> None:
    with connections.lookup("payments").session() as session:
        for value in values:
            session.send(topic, value)


def send_and_fail(topic: str, value: object) -> None:
    with connections.lookup("payments").session() as session:
        session.send(topic, value)
        raise ValueError("bad")


@pytest.mark.parametrize("goal", ConnectionFactory.Goal.values)
def test_what_a_session_sent_is_in_kafka_when_it_has_ended(broker, goal):
    a_factory(broker, goal=goal)
    topic = broker.topic()
    with connections.lookup("payments").session() as session:
        for n in range(100):
            session.send(topic, {"n": n}, key=f"k{n}", headers={"tenant": b"north"})
    assert read(broker, topic) == [{"n": n} for n in range(100)]
    record = broker.read_all(topic)[0]
    assert (record.key(), record.headers()) == (b"k0", [("tenant", b"north")])


def test_a_transaction_is_visible_as_a_whole_or_not_at_all(broker):
    a_factory(broker, transactional=True)
    topic = broker.topic()
    with connections.lookup("payments").session() as session:
        session.send(topic, {"n": 0})
        session.flush()
        assert read(broker, topic, decided=False) == []
        session.commit()
        assert read(broker, topic) == [{"n": 0}]
        session.send(topic, {"n": 1})
        session.rollback()
        session.send(topic, {"n": 2})
    with pytest.raises(ValueError, match="bad"):
        send_and_fail(topic, {"n": 3})
    assert read(broker, topic) == [{"n": 0}, {"n": 2}]


def test_a_record_that_kafka_refuses_is_told_and_takes_its_transaction_along(broker):
    a_factory(broker, transactional=True)
    topic = broker.topic(**{"max.message.bytes": "2000"})
    with pytest.raises(connections.SendFailedError):
        send(topic, {"n": 0}, secrets.token_bytes(5_000))
    assert broker.read_all(topic) == []
    with connections.lookup("payments").session() as session:
        session.send(topic, {"n": 1})
    assert read(broker, topic) == [{"n": 1}]


def test_connections_are_used_again_and_no_more_than_there_may_be(broker):
    a_factory(broker, most=1)
    topic = broker.topic()
    factory = connections.lookup("payments")
    for n in range(3):
        with factory.session() as session:
            session.send(topic, {"n": n})
    assert factory.idle == 1
    with (
        factory.session(),
        pytest.raises(connections.PoolExhaustedError) as told,
        factory.session(),
    ):
        pass
    assert "test_connections.py" in str(told.value)


def test_a_changed_factory_is_another_one_and_an_unknown_one_is_told(broker):
    row = a_factory(broker)
    first = connections.lookup("payments")
    assert connections.lookup("payments") is first
    row.goal = ConnectionFactory.Goal.LATENCY
    row.save()
    assert connections.lookup("payments") is not first
    with (
        pytest.raises(connections.PoolClosedError, match="was changed since it was looked up"),
        first.session(),
    ):
        pass
    with pytest.raises(connections.FactoryUnknownError) as told:
        connections.lookup("payment")
    assert "payments" in str(told.value)


def test_who_has_no_transactions_cannot_commit(broker):
    a_factory(broker)
    with connections.lookup("payments").session() as session:
        with pytest.raises(connections.NotTransactionalError):
            session.commit()
        with pytest.raises(connections.NotTransactionalError):
            session.rollback()
