"""A topic made anew with more partitions than the one before: where the further ones begin."""

import pytest

from integration.actions import blocks
from integration.actions.blocks import Place
from integration.models import Gap, QueueChange
from integration.values import TopicFacts
from tests.support.rows import TOPIC_UUID, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
LARGER = TopicFacts("second-topic", {0: 0, 1: 0, 2: 1}, {0: 7, 1: 7, 2: 9})


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
