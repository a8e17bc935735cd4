"""Outbound queues and the dispatcher: who gets an instance, what is due, pauses that end."""

from datetime import timedelta

import pytest
from django.utils import timezone

from crontasks.dispatch import dispatcher, due
from crontasks.models import CronInstance
from integration.actions import queues
from integration.actions.errors import OutboundQueueError
from integration.delivery.key_order import order_key
from integration.models import ChannelTarget, PublishChannel, Queue, QueueChange
from integration.store.circuits import DatabaseCircuits
from integration.store.sessions import django_connection
from tests.functional.test_dispatcher import a_queue, an_error
from tests.support.partners import an_endpoint

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def causes() -> set[str]:
    with django_connection().cursor() as cursor:
        return {one.cause.split()[0] for one in due.find(cursor).due}


def has_instance(queue: Queue) -> bool:
    return CronInstance.objects.filter(queue=queue, task="queue_consumer").exists()


def test_a_queue_with_an_endpoint_gets_its_instance_and_one_that_partners_read_gets_none():
    assert has_instance(a_queue("sent", direction="outbound", endpoint=an_endpoint()))
    read = a_queue("read", direction="outbound")
    assert not has_instance(read)
    endpoint = an_endpoint()
    channel = PublishChannel.objects.create(name="ORDERS")
    ChannelTarget.objects.create(
        channel=channel, system=endpoint.system, queue=read, endpoint=endpoint
    )
    assert has_instance(read)


def test_only_outbound_queues_that_send_are_started():
    a_queue("read", direction="outbound", taken=False)
    assert causes() == set()
    a_queue("sent", direction="outbound", endpoint=an_endpoint(), taken=False)
    assert causes() == {"never"}


def test_a_parked_failure_is_not_due_until_the_one_before_it_is_closed():
    queue = a_queue("sent", direction="outbound", endpoint=an_endpoint(), ordering="key")
    same = {"key": b"k", "order_key": order_key(b"k"), "arrival_batch": 1}
    first = an_error(queue, 1, state="HOLD", arrival_index=1, **same)
    now = timezone.now()
    an_error(
        queue,
        2,
        state="RETRY",
        arrival_index=2,
        not_before=now,
        carrier="row",
        **same,
    )
    assert causes() == set()
    first.state = "DELETED"
    first.save()
    assert causes() == {"rows"}


def test_a_pause_that_is_over_ends_by_itself_and_leaves_a_line():
    queue = a_queue("sent", direction="outbound", endpoint=an_endpoint())
    until = timezone.now() + timedelta(minutes=5)
    queues.pause(queue.pk, actor="ann", reason="Their update", until=until)
    with django_connection().cursor() as cursor:
        assert dispatcher.end_pauses(cursor) == 0
        Queue.objects.filter(pk=queue.pk).update(paused_until=timezone.now())
        assert dispatcher.end_pauses(cursor) == 1
    queue.refresh_from_db()
    assert (queue.paused, queue.paused_until, queue.pause_reason) == (False, None, "")
    last = QueueChange.objects.filter(queue=queue).order_by("-id").first()
    assert last is not None
    assert (last.actor, last.action) == (dispatcher.ACTOR, "resume")


def test_a_queue_that_partners_read_themselves_has_nothing_to_pause():
    queue = a_queue("read", direction="outbound")
    with pytest.raises(OutboundQueueError):
        queues.pause(queue.pk, actor="ann")


def test_the_rate_is_shared_and_a_slot_is_never_granted_far_ahead():
    circuits, endpoint = DatabaseCircuits(), an_endpoint().pk
    circuits.look(endpoint)
    granted = [circuits.slots(endpoint, 1, 0.02) for _ in range(3)]
    assert granted[0] == 0
    assert 0 < granted[1] <= 50
    assert granted[2] == pytest.approx(granted[1], abs=20), "nothing was taken"
