"""Records whose time no calendar has: they fail, wait and go on like all others."""

from functools import partial

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse

from integration.actions import failures
from integration.endpoints.port import Refused
from integration.kafka.source import first_waiting
from integration.models import MessageError, QueuePartition
from integration.runs.queues import run_queue
from tests.support import partners
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.rows import a_person

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MICROSECONDS = 1_700_000_000_000_000
NANOSECONDS = MICROSECONDS * 1_000
AFTER = "message.timestamp.after.max.ms"


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_topic(broker: Kafka) -> str:
    return broker.topic(**{AFTER: str(2**63 - 1)})


@pytest.mark.parametrize("time", [MICROSECONDS, NANOSECONDS])
def test_a_failure_with_such_a_time_is_kept_seen_and_tried_again(broker, time):
    queue = a_brief_queue(broker, topic=a_topic(broker))
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}], timestamp=time)
    broker.send(queue.topic, [{"n": 2, "do": "permanent"}, {"n": 3, "do": "ok"}])
    run_queue(queue.pk)
    assert QueuePartition.objects.get(queue=queue).next_offset == 3
    far, near = MessageError.objects.order_by("offset")
    assert (far.kafka_timestamp, near.kafka_timestamp is None) == (None, False)
    stored = "UPDATE integration_messageerror SET kafka_timestamp = to_timestamp(%s) WHERE id = %s"
    with connection.cursor() as cursor:
        cursor.execute(stored, [MICROSECONDS / 1_000, far.pk])
    client = Client()
    client.force_login(a_person("Editors"))
    page = client.get(reverse("failure", args=[far.pk]))
    assert page.status_code == 200
    assert "In Kafka since" not in page.text
    for error in (far, near):
        error.refresh_from_db()
        failures.release(error.pk, version=error.version, actor="ann")
    run_queue(queue.pk)
    assert list(MessageError.objects.values_list("state", "attempts")) == [("HOLD", 2)] * 2


def test_it_is_sent_and_so_are_its_neighbours(broker):
    an_outbound_queue = partial(partners.an_outbound_queue, stay_seconds=0.0)
    queue = an_outbound_queue(broker, "continuous", topic=a_topic(broker))
    for n, time in enumerate([0, MICROSECONDS, NANOSECONDS]):
        headers = [("sluice-message-id", f"m{n}".encode()), ("sluice-interface", b"ORDERS")]
        broker.send(queue.topic, [{"n": n}], timestamp=time, headers=headers)
    partner = MemoryDeliverer(
        script=lambda p: Refused(code="BAD", text="No.") if p.message_id == "m1" else None
    )
    partners.send(queue, partner)
    assert partner.shelf.ids == ["m0", "m2"]
    assert MessageError.objects.get().code == "BAD"


def test_nobody_knows_since_when_it_waits(broker):
    queue = a_brief_queue(broker, topic=a_topic(broker))
    broker.send(queue.topic, [{"n": 1}], timestamp=MICROSECONDS)
    broker.send(queue.topic, [{"n": 2}])
    assert first_waiting(queue.provider, queue.topic, {0: 0}) == {}
    assert set(first_waiting(queue.provider, queue.topic, {0: 1})) == {0}
