"""A topic that gets more partitions where keys keep their order: what waits, who may end it."""

import json
import uuid
from datetime import timedelta

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from django.test import Client
from django.urls import reverse

from crontasks.notices import conditions
from integration.actions import blocks, positions
from integration.actions.errors import QueueMismatchError
from integration.actions.positions import Move, Request
from integration.delivery.added import Addition
from integration.models import PartitionLease, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.store.positions import add_new_partitions
from integration.store.sessions import database_time
from integration.values import TopicFacts
from tests.support.added import producers_know
from tests.support.builders import a_brief_queue
from tests.support.kafka_world import Kafka
from tests.support.partners import a_call, an_endpoint
from tests.support.rows import TOPIC_UUID, a_held, a_person, a_place, a_queue_row
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
MINUTE = timedelta(minutes=1)


def applied() -> list[int]:
    return list(Effect.objects.order_by("pk").values_list("n", flat=True))


def waits(queue: Queue, **fields) -> QueuePartition:
    """A partition that was added just now, and waits."""
    known = {"partition": 1, "next_offset": 0, "begins_after": {"0": 15, "2": 3}}
    known |= {"state": "WAITING", "state_code": "KEYS_MOVED"}
    known |= {"producers_know_at": database_time() + 5 * MINUTE}
    return a_place(queue, **(known | fields))


def a_producer(broker: Kafka, **settings: str) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, **settings})


def produce(producer: Producer, queue: Queue, n: int, partition: int) -> None:
    producer.produce(queue.topic, json.dumps({"n": n}).encode(), "a", partition=partition)
    assert producer.flush(20) == 0


def again(place: QueuePartition) -> QueuePartition:
    return QueuePartition.objects.get(pk=place.pk)


@pytest.mark.django_db(transaction=True)
def test_what_a_producer_with_old_metadata_writes_is_applied_before_what_follows_it(servers):
    """Its transaction is open when the ends are read: that is not the end of the old partition."""
    broker = Kafka(servers.kafka_bootstrap)
    queue = a_brief_queue(broker, ordering="key")
    broker.send(queue.topic, [{"n": 0}], key="a", partition=0)
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(20)
    run_queue(queue.pk)
    run_queue(queue.pk)
    added = queue.partitions.get(partition=1)
    assert (added.state_code, added.begins_after) == ("KEYS_MOVED", {"0": 1})

    late = a_producer(broker, **{"transactional.id": f"x-{uuid.uuid4().hex}"})
    late.init_transactions(20)
    late.begin_transaction()
    produce(late, queue, 1, partition=0)
    # The producer that has written already does not know the other partition.
    produce(a_producer(broker), queue, 2, partition=1)
    producers_know(queue)
    run_queue(queue.pk)
    run_queue(queue.pk)
    assert applied() == [0]
    assert (again(added).producers_know_at, again(added).begins_after) == (None, {"0": 2})

    late.commit_transaction(20)
    broker.await_decided(queue.topic)
    run_queue(queue.pk)
    run_queue(queue.pk)
    assert (applied(), again(added).begins_after) == ([0, 1, 2], None)


def test_a_person_may_say_that_all_producers_know_it() -> None:
    queue = a_queue_row("continuous", ordering="key")
    place, old = waits(queue), a_place(queue)
    blocks.begin_sooner(queue.pk, actor="otto", reason="all were restarted")
    now = again(place)
    assert now.producers_know_at is not None
    assert now.producers_know_at <= database_time()
    assert (now.begins_after, again(old).producers_know_at) == ({"0": 15, "2": 3}, None)
    change = queue.changes.get()
    assert (change.action, change.actor) == ("begin sooner", "otto")
    queue.refresh_from_db()
    assert queue.start_requested_at is not None
    with pytest.raises(QueueMismatchError):
        blocks.begin_sooner(queue.pk, actor="anna")


def test_the_page_offers_it_as_long_as_it_would_change_something() -> None:
    queue = a_queue_row("continuous", ordering="key")
    client = Client()
    client.force_login(a_person("Operators", "otto"))
    page, verb = (reverse(name, args=[queue.name]) for name in ("queue", "begin-sooner"))
    assert verb not in client.get(page).text
    waits(queue)
    assert verb in client.get(page).text
    assert client.post(verb, {"reason": "all were restarted"}).status_code == 303
    assert verb not in client.get(page).text
    assert client.post(verb).status_code == 409


def test_nobody_is_told_of_a_wait_that_ends_by_itself_within_minutes() -> None:
    queue = a_queue_row("continuous", ordering="key")
    place, subject = waits(queue, state_since=database_time() - MINUTE), f"{queue.name}[1]"
    assert subject not in {one.subject for one in conditions.seen_by_workers(is_settled=False)}
    QueuePartition.objects.filter(pk=place.pk).update(producers_know_at=None)
    found = {one.subject for one in conditions.seen_by_workers(is_settled=False)}
    assert subject in found, "the others are behind"


def test_a_position_that_is_moved_is_waited_for_as_before() -> None:
    """Moved back, it has older messages of the same keys to read again."""
    queue = a_queue_row("continuous", ordering="key", paused=True)
    old = a_place(queue, next_offset=15)
    added, beside = waits(queue), waits(queue, partition=3)
    facts = TopicFacts(TOPIC_UUID, {0: 0, 1: 0, 3: 0}, {0: 15, 1: 8, 3: 8})
    how = Request(actor="otto", reason="because")
    positions.seek(queue.pk, [Move(0, 3, 15, 2)], facts=facts, request=how)
    assert again(old).next_offset == 2
    assert again(added).begins_after == again(beside).begins_after == {"0": 15, "2": 3}
    # One that is moved itself begins where a person wants it to.
    positions.seek(queue.pk, [Move(1, 3, 0, 2)], facts=facts, request=how)
    assert (again(added).begins_after, again(added).producers_know_at) == (None, None)
    assert again(beside).begins_after == {"0": 15, "2": 3}


@pytest.mark.parametrize("place", list(blocks.Place))
def test_one_that_waits_for_the_others_still_does_where_the_same_topic_is_adopted(place) -> None:
    queue = a_queue_row("continuous", ordering="key")
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED")
    added = waits(queue, state="BLOCKED", state_code="TOPIC_GONE")
    back = TopicFacts(TOPIC_UUID, {0: 0, 1: 0}, {0: 7, 1: 8})
    assert blocks.adopt(queue.pk, place=place, facts=back, actor="otto") == 2
    assert again(added).begins_after == {"0": 7, "2": 3}, "the first one has lost its end"
    assert again(added).producers_know_at == added.producers_know_at
    QueuePartition.objects.filter(pk=added.pk).update(state="BLOCKED", state_code="TOPIC_GONE")
    other = TopicFacts("second-topic", {0: 0, 1: 0}, {0: 7, 1: 8})
    blocks.adopt(queue.pk, place=place, facts=other, actor="otto")
    assert (again(added).begins_after, again(added).producers_know_at) == (None, None)


def test_nobody_waits_for_what_a_topic_has_lost_or_for_another_topic() -> None:
    queue = a_queue_row("continuous", ordering="key")
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED")
    beside = waits(queue)
    shorter = TopicFacts(TOPIC_UUID, {0: 0, 1: 0}, {0: 7, 1: 8})
    blocks.adopt(queue.pk, place=blocks.Place.START, facts=shorter, actor="otto")
    assert again(beside).begins_after == {"0": 7, "2": 3}
    QueuePartition.objects.filter(partition=0).update(state="BLOCKED", state_code="TOPIC_GONE")
    other = TopicFacts("second-topic", {0: 0, 1: 0}, {0: 7, 1: 8})
    blocks.adopt(queue.pk, place=blocks.Place.START, facts=other, actor="otto")
    assert again(beside).begins_after == {"2": 3}


@pytest.mark.parametrize("what", ["call", "try"])
def test_a_partition_that_a_topic_gets_back_waits_for_what_is_under_way_there(what: str) -> None:
    """It is the work of whoever has the lowest one, until that owner is through or dead."""
    queue = a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    lowest = a_place(queue)
    if what == "call":
        a_call(queue, 4, state="SENDING", partition=1)
    else:
        a_held(queue, 4, partition=1, state="PROCESSING", epoch=lowest.epoch)
    lease = a_lease(lowest)
    facts = TopicFacts(TOPIC_UUID, {0: 0, 1: 0}, {0: 15, 1: 8})
    assert add_new_partitions(queue, facts) is Addition.LATER
    assert list(queue.partitions.all()) == [lowest]
    PartitionLease.objects.filter(pk=lease.pk).update(lease_until=database_time() - MINUTE)
    assert add_new_partitions(queue, facts) is Addition.DONE
    back = queue.partitions.get(partition=1)
    assert min(back.epoch, again(lowest).epoch) > lowest.epoch, "what was left is older"
    queue.refresh_from_db()
    assert queue.start_requested_at is not None


def a_lease(place: QueuePartition) -> PartitionLease:
    """A living owner of the partition, as its row tells."""
    now = database_time()
    return PartitionLease.objects.create(
        partition=place,
        owner="worker-1",
        epoch=place.epoch,
        lock_pid=1,
        lock_backend_start=now,
        lease_until=now + MINUTE,
        taken_at=now,
    )
