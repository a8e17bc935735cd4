"""A branch is promised only if the topics that its messages are for will take them."""

import secrets
from typing import Any

import pytest

from integration import connections
from integration.models import ExternalSystem, XaBranch, XaDecision
from integration.xa.errors import XaRolledBackError
from tests.support.kafka_world import Kafka
from tests.support.secured_kafka import SecuredKafka
from tests.support.xa import (  # noqa: F401 - fixtures are found by their names
    a_factory,
    given_broker,
    given_log,
    given_other,
    given_topic,
    records,
)

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def send(*values: bytes, topic: str, **about: Any) -> None:
    with connections.lookup("payments").atomic() as session:
        ExternalSystem.objects.create(name="one")
        for value in values:
            session.send(topic, value, **about)


@pytest.mark.parametrize(
    ("settings", "about", "reason"),
    [
        (None, {}, "there is no topic nowhere"),
        ({"max.message.bytes": "2000"}, {"key": "k"}, "at most 2,000"),
        ({"max.message.bytes": "6000"}, {"headers": {"big": b"1" * 6_000}}, "at most 6,000"),
        ({"cleanup.policy": "compact"}, {}, "compacted"),
    ],
)
def test_what_a_topic_would_refuse_rolls_everything_back(broker, topic, settings, about, reason):
    target = "nowhere" if settings is None else broker.topic(**settings)
    with pytest.raises(XaRolledBackError, match=reason):
        send(b"first", secrets.token_bytes(5_000), topic=target, **about)
    assert not ExternalSystem.objects.filter(name="one").exists()
    factory = connections.lookup("payments")
    assert factory.leases() == []
    assert factory.xa().recover() == []


def test_messages_that_fit_one_by_one_are_not_put_into_one_packet_that_does_not(broker, topic):
    target = broker.topic(**{"max.message.bytes": "2000"})
    send(*[secrets.token_bytes(500) for _ in range(7)], topic=target)
    assert len(records(broker, target)) == 7
    assert not XaDecision.objects.exists()


def test_a_topic_that_may_not_be_written_rolls_everything_back(
    secured_kafka: SecuredKafka,
) -> None:
    broker = Kafka(secured_kafka.bootstrap)
    row = a_factory(broker, "database")
    shut, free = broker.topic(), broker.topic()
    for name, value in secured_kafka.by_scram().items():
        setattr(row.provider, name, value)
    row.provider.save()
    user = row.provider.username
    for granted in (
        f"--topic {row.xa_side_topic} --operation Read --operation Write",
        f"--topic {row.xa_side_topic} --operation DescribeConfigs",
        f"--topic {free} --operation Write",
        f"--topic {shut} --operation Describe",
        "--transactional-id sluice. --resource-pattern-type prefixed --operation Write",
    ):
        secured_kafka.grant(f"kafka-acls.sh --add --allow-principal User:{user} {granted}")
    try:
        with pytest.raises(XaRolledBackError, match="may not write to the topic"):
            send(b"1", topic=shut)
        assert not ExternalSystem.objects.filter(name="one").exists()
        send(b"1", topic=free)
        assert not XaBranch.objects.exists()
        assert not XaDecision.objects.exists()
    finally:
        connections.close_all()
