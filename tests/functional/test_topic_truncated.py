"""Topics that lost their end, as after a broker's disk came back from a backup."""

from uuid import uuid4

import pytest
from django.utils import timezone

from integration.actions.blocks import Place, adopt
from integration.actions.failures import release
from integration.kafka import admin
from integration.models import ErrorAttempt, MessageError, Queue, QueuePartition, SeenMessage
from tests.support.builders import a_brief_queue as a_queue
from tests.support.flows import drain, effects, position, standing
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import a_call, an_outbound_queue, send

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_topic_that_ends_below_the_position_blocks(broker, kind):
    """As after a broker's disk came back from a backup: same topic, fewer records."""
    queue = a_queue(broker, kind)
    broker.send(queue.topic, [{"n": 0}, {"n": 1}])
    drain(queue)
    QueuePartition.objects.filter(queue=queue).update(next_offset=50)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (50, "BLOCKED", "TOPIC_TRUNCATED")
    broker.send(queue.topic, [{"n": 2}])
    assert drain(queue).ending == "BLOCKED"
    assert effects() == [0, 1]


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_what_is_open_is_not_tried_again_when_a_truncated_topic_is_adopted(broker, kind):
    queue = a_queue(broker, kind, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}, {"n": 2}])
    drain(queue)
    row = MessageError.objects.values().get()
    QueuePartition.objects.filter(queue=queue).update(next_offset=50)
    drain(queue)
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")

    blocked = kind == "sequential"
    assert drain(queue).ending == ("BLOCKED" if blocked else "DRAINED")

    now = MessageError.objects.values().get()
    if not blocked:
        # It is as new as what is read again around it.
        assert now["arrival_batch"] > row["arrival_batch"]
        row["arrival_batch"] = now["arrival_batch"]
    assert now == row
    assert ErrorAttempt.objects.count() == 1
    assert effects() == ([0, 0] if blocked else [0, 0, 2, 2])
    assert standing(queue) == ((1, "BLOCKED", "HEAD_HELD") if blocked else (3, "RUNNING", ""))
    MessageError.objects.update(state="READY", edited_payload=b'{"n": 100}')
    drain(queue)
    assert effects() == ([0, 0, 2, 100] if blocked else [0, 0, 2, 2, 100])


def test_messages_of_a_topic_made_anew_are_no_repeats_of_the_old_ones(broker):
    queue = a_queue(broker, "continuous", dedupe=True)
    broker.send(queue.topic, [{"n": 0}, {"n": 1}])
    drain(queue)
    for _ in range(2):
        # As if what was read so far had stood in another topic of that name.
        QueuePartition.objects.filter(queue=queue).update(topic_uuid=str(uuid4()))
        assert drain(queue).ending == "BLOCKED"
        facts = admin.topic_facts(queue.provider, queue.topic)
        adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
        assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 0, 0, 1, 1, 1]
    # Nothing has changed for what is read again of the same topic.
    QueuePartition.objects.filter(queue=queue).update(next_offset=0)
    drain(queue)
    assert effects() == [0, 0, 0, 1, 1, 1]
    place = f"{queue.provider.name}~{queue.topic}"
    ids = set(SeenMessage.objects.values_list("message_id", flat=True))
    assert ids == {f"{place}{made}~0~{n}" for made in ("", "@1", "@2") for n in range(2)}


def test_a_message_of_a_topic_made_anew_is_tried_where_work_had_died_on_another_one(broker):
    queue = a_queue(broker, "continuous")
    broker.send(queue.topic, [{"n": 0}, {"n": 1}])
    drain(queue)
    died = {"next_offset": 1, "suspect_offset": 1, "suspect_crashes": queue.crash_limit}
    QueuePartition.objects.filter(queue=queue).update(topic_uuid=str(uuid4()), **died)
    assert drain(queue).ending == "BLOCKED"
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 0, 1, 1]
    assert not MessageError.objects.exists()


def adopted_without_its_end(broker: Kafka, queue: Queue) -> MessageError:
    """A topic that lost its end, with a failure in it: its offset is given to the next message."""
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}])
    drain(queue)
    MessageError.objects.update(offset=2)
    QueuePartition.objects.filter(queue=queue).update(next_offset=50)
    assert drain(queue).ending == "BLOCKED"
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.END, facts=facts, actor="anna")
    return MessageError.objects.get()


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_message_that_got_the_offset_of_a_held_one_is_applied(broker, kind):
    queue = a_queue(broker, kind, max_retries=0)
    row = adopted_without_its_end(broker, queue)
    broker.send(queue.topic, [{"n": 2}])

    assert drain(queue).ending == "DRAINED"

    assert effects() == [0, 2]
    assert standing(queue) == (3, "RUNNING", "")
    row = MessageError.objects.get(pk=row.pk, state="HOLD")
    MessageError.objects.update(edited_payload=b'{"n": 100}')
    release(row.pk, version=row.version, actor="anna", late=True)
    drain(queue)
    assert effects() == [0, 2, 100]
    assert MessageError.objects.get().state == "RESOLVED"


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_message_that_got_the_offset_of_a_closed_one_fails_as_itself(broker, kind):
    queue = a_queue(broker, kind, max_retries=0)
    old = adopted_without_its_end(broker, queue)
    MessageError.objects.update(state="RESOLVED", closed_at=timezone.now())
    broker.send(queue.topic, [{"n": 2, "do": "permanent"}])

    drain(queue)

    new = MessageError.objects.get(state="HOLD")
    assert (new.offset, b'"n": 2' in bytes(new.payload)) == (2, True)
    kept = MessageError.objects.get(state="RESOLVED")
    assert (kept.pk, kept.offset, bytes(kept.payload)) == (old.pk, 2, bytes(old.payload))


def test_what_was_done_ahead_of_the_position_passes_no_message_of_an_adopted_topic(broker):
    """The position does not tell that the topic was cut; what was read beyond it does."""
    queue = a_queue(broker, "continuous")
    broker.send(queue.topic, [{"n": 0}, {"n": 1}])
    drain(queue)
    ahead = {"done_offsets": [2, 3], "open_from": 1, "open_until": 4, "open_arrival": 1}
    QueuePartition.objects.filter(queue=queue).update(next_offset=1, **ahead)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (1, "BLOCKED", "TOPIC_TRUNCATED")
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.END, facts=facts, actor="anna")
    broker.send(queue.topic, [{"n": 2}, {"n": 3}])
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 1, 2, 3]


def test_what_was_delivered_ahead_of_the_position_passes_no_message_of_an_adopted_topic(broker):
    """Calls are made side by side: the last one was answered, and the first one was not."""
    queue = an_outbound_queue(broker, "continuous", stay_seconds=0.0)
    broker.send(queue.topic, [{"n": 0}])
    begun = f"{queue.provider.name}~{queue.topic}"
    a_call(queue, 2, topic_uuid=position(queue).topic_uuid, message_id=f"{begun}~0~2")
    partner = MemoryDeliverer()
    assert send(queue, partner).ending == "BLOCKED"
    assert standing(queue) == (0, "BLOCKED", "TOPIC_TRUNCATED")
    assert not partner.calls
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.START, facts=facts, actor="anna")
    broker.send(queue.topic, [{"n": 1}, {"n": 2}])
    assert send(queue, partner).ending == "DRAINED"
    assert sorted(partner.shelf.ids) == [f"{begun}@1~0~{n}" for n in range(3)]


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_failure_ahead_of_the_position_passes_no_message_of_an_adopted_topic(broker, kind):
    """The position went back, and then the topic lost its end."""
    queue = a_queue(broker, kind, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}])
    drain(queue)
    MessageError.objects.update(offset=3)
    QueuePartition.objects.update(next_offset=2)
    assert drain(queue).ending == "BLOCKED"
    assert standing(queue) == (2, "BLOCKED", "TOPIC_TRUNCATED")
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=Place.END, facts=facts, actor="anna")
    broker.send(queue.topic, [{"n": 2}, {"n": 3}])
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 2, 3]
    assert MessageError.objects.get().state == "HOLD"


@pytest.mark.parametrize("place", list(Place))
def test_a_topic_that_has_grown_again_when_it_is_adopted_has_other_messages_there(broker, place):
    """Partners go on to write while the queue waits for a person."""
    queue = a_queue(broker, "continuous", max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "permanent"}])
    drain(queue)
    MessageError.objects.update(offset=3)
    QueuePartition.objects.update(next_offset=4)
    assert drain(queue).ending == "BLOCKED"
    assert position(queue).lost_from == 2
    broker.send(queue.topic, [{"n": n} for n in range(2, 8)])
    assert drain(queue).ending == "BLOCKED"
    facts = admin.topic_facts(queue.provider, queue.topic)
    adopt(queue.pk, place=place, facts=facts, actor="anna")
    assert position(queue).lost_from is None
    broker.send(queue.topic, [{"n": 8}])
    drain(queue)
    # The first two are applied once more, where all is read again.
    again = [0, 0, 2, 3, 4, 5, 6, 7, 8] if place is Place.START else [0, 8]
    assert effects() == again
    failed = MessageError.objects.order_by("first_failed_at").values_list("offset", "state")
    assert list(failed) == [(3, "HOLD"), (1, "HOLD")][: 2 if place is Place.START else 1]
