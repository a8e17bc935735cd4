"""People tell a queue where to stop: what is stored, refused, cancelled and taken away."""

import pytest
from django.utils import timezone

from integration.actions import queue_stops, queues
from integration.actions.errors import OutboundQueueError, QueueMismatchError, StopPassedError
from integration.kafka.errors import TopicUnknownError
from integration.models import Delivery, Queue, QueueChange, QueuePartition
from integration.selectors.queues import queues as selectors
from integration.selectors.queues.asked_stops import asked_stop
from integration.selectors.queues.status import Status
from integration.values import TopicFacts
from tests.support.partners import an_endpoint
from tests.support.rows import TOPIC_UUID, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
FACTS = TopicFacts(TOPIC_UUID, {0: 0, 1: 0}, {0: 15, 1: 8})


def stops(queue: Queue) -> list[int | None]:
    rows = QueuePartition.objects.filter(queue=queue).order_by("partition")
    return list(rows.values_list("stop_at", flat=True))


def last(queue: Queue) -> QueueChange:
    return QueueChange.objects.filter(queue=queue).first()


def test_a_drain_stops_at_what_is_there_now_or_was_read_since() -> None:
    queue = a_queue_row("continuous", paused=True, pause_reason="stocktaking")
    a_place(queue)
    a_place(queue, partition=1)
    told = queue_stops.drain(queue.pk, facts=FACTS, actor="otto", reason="before the upgrade")
    assert stops(queue) == [15, 10]
    queue.refresh_from_db()
    assert (queue.paused, queue.pause_reason) == (False, "")
    assert queue.start_requested_at is not None
    change = last(queue)
    assert (change.action, change.actor, change.effect) == ("drain", "otto", told)
    requests = QueuePartition.objects.filter(queue=queue).values_list("stop_request", flat=True)
    assert set(requests) == {change.pk}


def test_one_partition_stops_where_it_is_told_and_not_where_it_has_been() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    a_place(queue, partition=1)
    queue_stops.stop_at(queue.pk, 12, partition=1, actor="otto")
    assert stops(queue) == [None, 12]
    # At the position itself: no further message at all.
    queue_stops.stop_at(queue.pk, 10, actor="otto")
    assert stops(queue) == [10, 10]
    with pytest.raises(StopPassedError) as refused:
        queue_stops.stop_at(queue.pk, 9, actor="otto")
    assert refused.value.code == "STOP_PASSED"
    assert stops(queue) == [10, 10]


def test_what_is_sent_already_is_not_before_a_stop() -> None:
    queue = a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    place = a_place(queue)
    for offset, epoch in ((12, place.epoch), (14, place.epoch - 1)):
        Delivery.objects.create(
            queue=queue,
            endpoint=queue.endpoint,
            topic_uuid=TOPIC_UUID,
            partition=0,
            offset=offset,
            message_id=f"m{offset}",
            state="SENDING",
            epoch=epoch,
            started_at=timezone.now(),
        )
    with pytest.raises(StopPassedError, match="13"):
        queue_stops.stop_at(queue.pk, 12, actor="otto")
    queue_stops.stop_at(queue.pk, 13, actor="otto")
    assert stops(queue) == [13]
    queue_stops.drain(queue.pk, facts=TopicFacts(TOPIC_UUID, {0: 0}, {0: 11}), actor="otto")
    assert stops(queue) == [13]


def test_a_stop_is_cancelled_and_a_resumption_takes_it_away() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    queue_stops.stop_at(queue.pk, 12, actor="otto")
    queue_stops.cancel(queue.pk, actor="anna")
    assert (stops(queue), last(queue).action, last(queue).actor) == ([None], "cancel stop", "anna")
    with pytest.raises(QueueMismatchError):
        queue_stops.cancel(queue.pk, actor="anna")
    queue_stops.stop_at(queue.pk, 12, actor="otto")
    queues.pause(queue.pk, actor="otto")
    assert stops(queue) == [12]
    queues.resume(queue.pk, actor="otto")
    assert stops(queue) == [None]


def test_a_queue_that_cannot_come_there_is_not_told_to() -> None:
    queue = a_queue_row("continuous")
    with pytest.raises(QueueMismatchError):
        queue_stops.stop_at(queue.pk, 12, actor="otto")
    a_place(queue)
    with pytest.raises(QueueMismatchError):
        queue_stops.stop_at(queue.pk, 12, partition=4, actor="otto")
    with pytest.raises(TopicUnknownError):
        queue_stops.drain(queue.pk, facts=None, actor="otto")
    other = TopicFacts("second-topic", {0: 0}, {0: 15})
    with pytest.raises(QueueMismatchError):
        queue_stops.drain(queue.pk, facts=other, actor="otto")
    outbound = a_queue_row(direction="outbound")
    with pytest.raises(OutboundQueueError):
        queue_stops.stop_at(outbound.pk, 12, actor="otto")
    assert stops(queue) == [None]


def test_how_far_it_is_and_what_it_leaves_is_told() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    a_place(queue, partition=1)
    a_place(queue, partition=2)
    assert asked_stop(selectors.detail(queue.name).row) is None
    queue_stops.stop_at(queue.pk, 13, partition=0, actor="otto", reason="look at it")
    queue_stops.stop_at(queue.pk, 10, partition=1, actor="otto", reason="look at it")
    a_held(queue, 3, state="RETRY", not_before=timezone.now())
    a_held(queue, 4, state="READY")
    row = selectors.detail(queue.name).row
    told = asked_stop(row)
    assert (told.left, told.reached, len(told.places)) == (3, 1, 2)
    assert (told.retrying, told.released, told.is_drain) == (1, 1, False)
    assert told.asked.reason == "look at it"
    # The one that is there waits for the others, which speak for the queue.
    assert [one.status for one in row.partitions][1] is Status.WAITING
    assert row.status is Status.RUNNING
    # The history may be cleaned up before the stop is reached.
    QueueChange.objects.all().delete()
    assert asked_stop(row).asked is None
