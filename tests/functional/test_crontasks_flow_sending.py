"""check_flow of a queue that sends names the broken link on the whole way out."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from crontasks.health.flow import check_flow
from crontasks.models import CronInstance
from integration.models import (
    ChannelTarget,
    Delivery,
    Endpoint,
    EndpointCircuit,
    ExternalSystem,
    Provider,
    PublishChannel,
    Queue,
    QueuePartition,
    RelayLease,
)
from integration.policy.relay_shares import shard_of
from tests.functional.flow_world import a_heart
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue
from tests.support.rows import a_message_to_send

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
Break = Callable[[Queue], object]


@pytest.fixture
def queue(servers) -> Queue:
    """An outbound queue with a channel before it and an endpoint behind it, all alive."""
    a_heart("beat")
    a_heart("worker")
    made = an_outbound_queue(Kafka(servers.kafka_bootstrap), "continuous", endpoint=an_endpoint())
    channel = PublishChannel.objects.create(name="ORDERS")
    system = ExternalSystem.objects.get(name="partner")
    ChannelTarget.objects.create(channel=channel, system=system, queue=made)
    if not CronInstance.objects.filter(task="relay").exists():
        CronInstance.objects.create(name="Relay", task="relay", interval_seconds=5)
    return Queue.objects.select_related("provider", "system", "default_service").get(pk=made.pk)


def fresh(queue: Queue) -> Queue:
    related = Queue.objects.select_related("provider", "system", "default_service")
    return related.get(pk=queue.pk)


def broken_in(queue: Queue) -> list[str]:
    return [link.name for link in check_flow(fresh(queue)) if not link.ok]


def test_a_whole_way_out_is_walked_from_provider_to_delivery(queue: Queue) -> None:
    links = check_flow(queue)
    assert [link.name for link in links if not link.ok] == []
    order = [link.name for link in links]
    assert order.index("channel") < order.index("outbox") < order.index("topic")
    assert order[-5:] == ["endpoint", "position", "rescue", "unknown", "delivered"]


def no_relay(queue: Queue) -> object:
    return RelayLease.objects.update_or_create(
        provider=queue.provider, shard=0, defaults={"in_doubt_since": timezone.now()}
    )


def an_old_row(queue: Queue) -> object:
    return a_message_to_send(queue, created_at=timezone.now() - timedelta(minutes=5))


def is_down(queue: Queue) -> object:
    return EndpointCircuit.objects.update_or_create(
        endpoint=queue.endpoint, defaults={"state": "OPEN", "opened_at": timezone.now()}
    )


BREAKS: dict[str, Break] = {
    "channel": lambda _: PublishChannel.objects.update(enabled=False),
    "lease": no_relay,
    "outbox": an_old_row,
    "queue": lambda _: Queue.objects.update(paused=True),
    "instance": lambda queue: CronInstance.objects.filter(queue=queue).delete(),
    "endpoint": is_down,
    "position": lambda _: QueuePartition.objects.update(state="BRAKED"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_broken_link_is_named(queue: Queue, name: str) -> None:
    BREAKS[name](queue)
    assert broken_in(queue) == [name]


def test_a_shard_that_nobody_serves_is_named(queue: Queue) -> None:
    provider = queue.provider
    Provider.objects.filter(pk=provider.pk).update(shards=4)
    shard = shard_of(queue.topic, 4)
    RelayLease.objects.update_or_create(
        provider=provider,
        shard=(shard + 1) % 4,
        defaults={"owner": "relay", "lease_until": _soon(), "end_bucket": 0},
    )
    assert broken_in(queue) == ["lease"]
    [lease] = [link for link in check_flow(fresh(queue)) if link.name == "lease"]
    assert f"shard {shard} of {provider.name}" in str(lease)
    # Another shard that has not given the topic up yet is the one that sends it.
    RelayLease.objects.filter(shard=(shard + 1) % 4).update(end_bucket=256)
    assert broken_in(queue) == []


def _soon() -> datetime:
    return timezone.now() + timedelta(minutes=1)


@pytest.mark.parametrize("switch", ["enabled", "paused_until"])
def test_what_people_switched_of_an_endpoint_is_told(queue: Queue, switch: str) -> None:
    later = timezone.now() + timedelta(hours=1)
    Endpoint.objects.update(**{switch: False if switch == "enabled" else later})
    assert broken_in(queue) == ["endpoint"]


def test_messages_wait_and_none_was_delivered(queue: Queue) -> None:
    place = queue.partitions.first()
    assert place is not None
    QueuePartition.objects.filter(pk=place.pk).update(high_watermark=place.next_offset + 4)
    assert broken_in(queue) == ["delivered"]
    Delivery.objects.create(
        queue=queue,
        endpoint=queue.endpoint,
        topic_uuid=place.topic_uuid,
        partition=0,
        offset=0,
        message_id="m-0",
        state="DELIVERED",
        epoch=1,
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )
    assert broken_in(queue) == []
