"""What adopting a topic counts as untried, and where further partitions of one made anew begin."""

from datetime import timedelta

import pytest
from django.utils import timezone

from integration.actions import blocks
from integration.actions.blocks import Place
from integration.actions.errors import StillSendingError
from integration.models import Gap, PartitionLease, Queue, QueueChange, QueuePartition
from integration.values import TopicFacts
from tests.support.partners import a_call, an_endpoint
from tests.support.rows import TOPIC_UUID, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LARGER = TopicFacts("second-topic", {0: 0, 1: 0, 2: 1}, {0: 7, 1: 7, 2: 9})


@pytest.mark.parametrize(("place", "untried"), [(Place.START, (6, 15)), (Place.END, (6, 20))])
def test_what_came_after_a_lost_end_and_has_expired_is_recorded_as_untried(
    place: Place, untried: tuple[int, int]
) -> None:
    queue = a_queue_row("continuous")
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED", lost_from=6)
    grown_and_expired = TopicFacts(TOPIC_UUID, {0: 15}, {0: 20})
    blocks.adopt(queue.pk, place=place, facts=grown_and_expired, actor="otto")
    assert list(Gap.objects.values_list("from_offset", "to_offset")) == [untried]


@pytest.mark.parametrize(
    ("uuid", "offset", "is_kept"),
    [("second-topic", 5, False), (TOPIC_UUID, 6, False), (TOPIC_UUID, 5, True)],
    ids=["made anew", "lost", "still there"],
)
def test_work_has_died_on_no_message_that_gets_the_offset_of_another(
    uuid: str, offset: int, is_kept: bool
) -> None:
    queue = a_queue_row("continuous")
    died = {"suspect_offset": offset, "suspect_crashes": 2, "suspect_hung": True}
    died |= {"unclean_ends": 2, "unclean_offset": 0}
    place = a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED", lost_from=6, **died)
    facts = TopicFacts(uuid, {0: 0}, {0: 20})
    blocks.adopt(queue.pk, place=Place.START, facts=facts, actor="otto")
    found = QueuePartition.objects.filter(pk=place.pk).values(*died).get()
    forgotten = dict.fromkeys(died, 0) | {"suspect_offset": None, "unclean_offset": None}
    assert found == (died if is_kept else forgotten)


@pytest.mark.parametrize(("place", "offset"), [(Place.START, 1), (Place.END, 9)])
def test_further_partitions_of_a_topic_made_anew_begin_where_the_others_do(
    place: Place, offset: int
) -> None:
    queue = a_queue_row("continuous", ordering="key")
    for partition in (0, 1):
        a_place(queue, partition=partition, state="BLOCKED", state_code="TOPIC_RECREATED")
    assert blocks.adopt(queue.pk, place=place, facts=LARGER, actor="otto", reason="larger") == 2
    first, _, further = queue.partitions.order_by("partition")
    assert (further.next_offset, further.begins_after) == (offset, None)
    assert (further.topic_uuid, further.generation) == (LARGER.topic_uuid, first.generation)
    assert further.epoch == first.epoch
    gaps = Gap.objects.filter(partition=further, acknowledged_by="otto")
    skipped = [(1, 9)] if place is Place.END else []
    assert list(gaps.values_list("from_offset", "to_offset")) == skipped
    assert QueueChange.objects.get(partition=2).reason == "larger"


def a_living_owner(place: QueuePartition, epoch: int) -> PartitionLease:
    return PartitionLease.objects.create(
        partition=place,
        owner="worker-1",
        epoch=epoch,
        lock_pid=1,
        lock_backend_start=timezone.now(),
        lease_until=timezone.now() + timedelta(seconds=60),
        taken_at=timezone.now(),
    )


def dies(lease: PartitionLease) -> None:
    lease.lease_until = timezone.now() - timedelta(seconds=60)
    lease.save()


def half_adopted(place: Place) -> tuple[Queue, QueuePartition]:
    """A queue whose second partition was blocked later than the first, which is at work again."""
    queue = a_queue_row("continuous", ordering="key")
    first = a_place(queue, epoch=9, state="BLOCKED", state_code="TOPIC_RECREATED")
    second = a_place(queue, partition=1)
    blocks.adopt(queue.pk, place=place, facts=LARGER, actor="otto")
    assert queue.partitions.count() == 2, "the other one may be of a topic before"
    QueuePartition.objects.filter(pk=first.pk).update(epoch=12, generation=4)
    blocked = {"state": "BLOCKED", "state_code": "TOPIC_RECREATED"}
    QueuePartition.objects.filter(pk=second.pk).update(**blocked)
    return queue, first


@pytest.mark.parametrize(("place", "offset"), [(Place.START, 1), (Place.END, 9)])
def test_further_partitions_begin_there_though_the_others_are_adopted_one_by_one(
    place: Place, offset: int
) -> None:
    queue, _ = half_adopted(place)
    assert blocks.adopt(queue.pk, place=place, facts=LARGER, actor="otto") == 1
    further = queue.partitions.get(partition=2)
    assert (further.next_offset, further.begins_after) == (offset, None)
    assert (further.topic_uuid, further.epoch, further.generation) == ("second-topic", 12, 4)
    skipped = [(1, 9)] if place is Place.END else []
    gaps = Gap.objects.filter(partition=further)
    assert list(gaps.values_list("from_offset", "to_offset")) == skipped
    assert QueueChange.objects.filter(queue=queue).count() == 3


def test_a_further_partition_does_not_begin_while_what_was_left_of_it_is_tried() -> None:
    """Whoever has the lowest one works for what is left of one that was given up before."""
    queue, first = half_adopted(Place.START)
    a_held(queue, partition=2, state="PROCESSING", epoch=12)
    lease = a_living_owner(first, epoch=12)
    with pytest.raises(StillSendingError):
        blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto")
    assert queue.partitions.count() == 2
    dies(lease)
    assert blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto") == 1
    epochs = queue.partitions.order_by("partition").values_list("epoch", flat=True)
    assert list(epochs) == [13, 4, 13], "whoever had chosen it is fenced"


@pytest.mark.parametrize(
    ("kind", "facts", "code"),
    [
        ("sequential", LARGER, "TOPIC_RECREATED"),
        ("continuous", TopicFacts(TOPIC_UUID, LARGER.low, LARGER.high), "TOPIC_TRUNCATED"),
    ],
)
def test_other_partitions_that_are_added_begin_as_always(
    kind: str, facts: TopicFacts, code: str
) -> None:
    queue = a_queue_row(kind)
    a_place(queue, state="BLOCKED", state_code=code)
    blocks.adopt(queue.pk, place=Place.END, facts=facts, actor="otto")
    assert queue.partitions.count() == 1


@pytest.mark.parametrize(
    ("topics", "generations"),
    [
        # One has another topic's messages as yet: nobody's ids change.
        ([LARGER.topic_uuid, TOPIC_UUID, LARGER.topic_uuid], [0, 5, 0]),
        ([LARGER.topic_uuid] * 3, [5, 0, 0]),
    ],
)
def test_no_more_generations_are_counted_on_than_outrank_a_partition_given_up(
    topics: list[str], generations: list[int]
) -> None:
    """Ids are made of them: where the messages stay, these are to keep theirs."""
    queue = a_queue_row("continuous")
    for partition, topic in enumerate(topics):
        a_place(queue, partition=partition, topic_uuid=topic)
    a_place(queue, partition=3, state="BLOCKED", state_code="TOPIC_GONE", generation=4)
    assert blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto") == 1
    found = queue.partitions.order_by("partition").values_list("generation", flat=True)
    assert list(found) == generations


def test_messages_get_other_ids_only_once_nothing_is_tried_under_those_of_before() -> None:
    """Whoever is at work there gives them the ids of before until it is fenced."""
    queue = a_queue_row("continuous")
    place = a_place(queue, topic_uuid=LARGER.topic_uuid, epoch=9)
    a_place(queue, partition=3, state="BLOCKED", state_code="TOPIC_GONE", generation=4)
    a_held(queue, 4, topic_uuid=LARGER.topic_uuid, state="PROCESSING", epoch=9)
    lease = a_living_owner(place, epoch=9)
    with pytest.raises(StillSendingError):
        blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto")
    assert queue.partitions.count() == 2, "nothing is decided"
    dies(lease)
    assert blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto") == 1
    found = queue.partitions.order_by("partition").values_list("generation", "epoch")
    assert found.first() == (5, 10), "the owner is fenced"


@pytest.mark.parametrize("state", ["SENDING", "DELIVERED"])
@pytest.mark.parametrize("has_another", [True, False])
def test_no_message_gets_another_id_that_was_called_for_and_is_read_again(
    state: str, has_another: bool
) -> None:
    """Nobody would know it as delivered, or as the one whose call has no answer."""
    queue = a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    a_place(queue, topic_uuid=LARGER.topic_uuid, epoch=9)
    if has_another:
        a_place(queue, partition=1, topic_uuid=LARGER.topic_uuid, epoch=8)
    a_place(queue, partition=3, state="BLOCKED", state_code="TOPIC_GONE", generation=4)
    a_call(queue, 12, state=state, topic_uuid=LARGER.topic_uuid, epoch=9)
    if has_another:
        assert blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto") == 1
        found = queue.partitions.order_by("partition").values_list("generation", "epoch")
        assert list(found)[:2] == [(0, 9), (5, 9)]
    else:
        with pytest.raises(StillSendingError):
            blocks.adopt(queue.pk, place=Place.START, facts=LARGER, actor="otto")
