"""Where a queue begins that became one that is read by something else than its own form."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from integration.actions import configuration
from integration.actions.configuration import Author
from integration.delivery.report import RunEnding
from integration.models import (
    ChannelTarget,
    ConfigurationChange,
    Endpoint,
    Provider,
    PublishChannel,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.store.sessions import database_now
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, numbers, post, send
from tests.support.set_up import logged_in
from tests.support.unanswered import wait_a_moment

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers: Any) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker: Kafka) -> Queue:
    """Outbound, read by its partner so far: nobody has given it a position."""
    found = a_queue(broker, direction="outbound", default_service=None, start_from="end")
    found.partitions.all().delete()
    return found


def target_of(queue: Queue, endpoint: Endpoint) -> ChannelTarget:
    channel = PublishChannel.objects.create(name="ORDERS")
    return ChannelTarget(channel=channel, system=endpoint.system, queue=queue, endpoint=endpoint)


def entered(client: Client, queue: Queue, endpoint: Endpoint) -> Any:
    channel = PublishChannel.objects.create(name="ORDERS")
    fields = {
        "channel": channel.pk, "system": endpoint.system_id, "enabled": "on", "queue": queue.pk,
        "endpoint": endpoint.pk,
    }  # fmt: skip
    return client.post(reverse("target-new"), fields)


def test_a_target_with_an_endpoint_gives_its_queue_its_position(
    broker: Kafka, queue: Queue
) -> None:
    post(broker, queue, 2)
    assert entered(logged_in(), queue, an_endpoint()).status_code == 303
    assert queue.partitions.get().next_offset == 2
    post(broker, queue, 1, first=2)
    partner = MemoryDeliverer()
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert numbers(partner.shelf.ids) == [2]


def test_a_target_whose_queue_cannot_get_one_is_not_saved(broker: Kafka, queue: Queue) -> None:
    Queue.objects.update(topic="not-there")
    answer = entered(logged_in(), queue, an_endpoint())
    assert answer.status_code == 422
    assert "not-there" in answer.text
    assert "Nothing was saved." in answer.text
    assert not ChannelTarget.objects.exists()
    assert not ConfigurationChange.objects.exists()


def test_the_first_run_gives_one_and_sends_what_was_published_since(
    broker: Kafka, queue: Queue
) -> None:
    """As a configuration file leaves it, which asks no broker."""
    post(broker, queue, 2)
    target = target_of(queue, an_endpoint())
    configuration.save(target, Author("the file"))
    ConfigurationChange.objects.update(at=database_now() + timedelta(seconds=2))
    moment = int(ConfigurationChange.objects.get().at.timestamp() * 1_000)
    headers: Any = [("sluice-message-id", b"m2"), ("sluice-interface", b"ORDERS")]
    broker.producer.produce(queue.topic, b"{}", headers=headers, timestamp=moment + 1_000)
    assert broker.producer.flush(20) == 0
    partner = MemoryDeliverer()
    send(queue, partner)
    assert queue.partitions.get().next_offset == 3
    assert numbers(partner.shelf.ids) == [2]
    queue.refresh_from_db()
    assert queue.start_from == "end", "what people chose is not touched"


def test_the_first_run_of_an_inbound_queue_gives_one_too(broker: Kafka) -> None:
    inbound = a_queue(broker)
    inbound.partitions.all().delete()
    broker.send(inbound.topic, [1, 2])
    assert run_queue(inbound.pk).ending is not RunEnding.NOTHING_FREE
    assert inbound.partitions.get().next_offset == 2


def test_without_the_broker_the_run_says_so_and_the_next_one_tries_again(
    broker: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbound = a_queue(broker)
    inbound.partitions.all().delete()
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    wait_a_moment(monkeypatch)
    report = run_queue(inbound.pk)
    assert report.ending is RunEnding.OUTAGE
    assert "no position yet" in report.text
    assert not QueuePartition.objects.exists()
