"""Saving a queue: what is refused, at which field, and where its reading begins."""

import time
import uuid
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from django.core.exceptions import ValidationError
from django.utils import timezone

from devstack.server import Server
from integration import registration
from integration.delivery.added import Addition
from integration.kafka import admin
from integration.kafka.errors import BrokerUnreachableError, TopicUnknownError
from integration.models import MessageError, Provider, Queue
from integration.store.positions import add_new_partitions
from tests.support.unanswered import wait_a_moment

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
WEEK = 604_800


@pytest.fixture
def provider(kafka: Server) -> Provider:
    return Provider.objects.create(name="main", bootstrap_servers=kafka.bootstrap)


def a_topic(provider: Provider, partitions: int = 1, **settings: str) -> str:
    name = f"registration-{uuid.uuid4().hex[:10]}"
    dotted = {key.replace("_", "."): value for key, value in settings.items()}
    assert admin.create_topic(provider, name, partitions=partitions, settings=dotted)
    return name


def a_queue(provider: Provider, topic: str, **fields: object) -> Queue:
    values = {
        "name": f"q-{uuid.uuid4().hex[:10]}",
        "provider": provider,
        "topic": topic,
        "kind": "continuous",
        "start_from": "beginning",
        "retention_seconds": WEEK,
        **fields,
    }
    return Queue(**values)


def write(
    provider: Provider, topic: str, *values: bytes, partition: int = 0, stamp_ms: int = 0
) -> None:
    """Write one record a value; a stamp of 0 is the time of writing."""
    producer = Producer({"bootstrap.servers": provider.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, partition=partition, timestamp=stamp_ms)
    assert producer.flush(10) == 0


def refused(queue: Queue) -> dict[str, list[str]]:
    with pytest.raises(ValidationError) as caught:
        registration.check(queue)
    return caught.value.message_dict


def unclean(queue: Queue) -> dict[str, list[str]]:
    """What its own fields say against it, without the broker."""
    with pytest.raises(ValidationError) as caught:
        queue.full_clean()
    return caught.value.message_dict


def test_a_fitting_queue_is_accepted(provider: Provider) -> None:
    registration.check(a_queue(provider, a_topic(provider), kind="sequential"))
    registration.check(a_queue(provider, a_topic(provider, partitions=3)))


def test_a_sequential_topic_has_one_partition(provider: Provider) -> None:
    mistakes = refused(a_queue(provider, a_topic(provider, partitions=2), kind="sequential"))
    assert "2 partitions" in mistakes["kind"][0]


def test_the_topic_must_exist(provider: Provider) -> None:
    assert "does not exist" in refused(a_queue(provider, "nowhere"))["topic"][0]
    with pytest.raises(TopicUnknownError):
        registration.preview_start(a_queue(provider, "nowhere"))


def test_retention_is_the_topics(provider: Provider) -> None:
    day = a_topic(provider, retention_ms="86400000")
    assert "86400 seconds" in refused(a_queue(provider, day))["retention_seconds"][0]
    registration.check(a_queue(provider, day, retention_seconds=86_400))
    registration.check(a_queue(provider, a_topic(provider, retention_ms="-1")))


def test_a_compacted_topic_needs_the_row_as_carrier(provider: Provider) -> None:
    topic = a_topic(provider, cleanup_policy="compact")
    assert "compacted" in refused(a_queue(provider, topic))["carrier"][0]
    registration.check(a_queue(provider, topic, carrier="row"))
    registration.check(a_queue(provider, topic, kind="sequential"))


def test_a_topic_we_may_not_write_needs_the_row_as_carrier(provider: Provider) -> None:
    topic = admin.describe(provider, a_topic(provider))
    assert topic.may_write is True
    closed = replace(topic, may_write=False)
    queue = a_queue(provider, topic.name)
    assert "cannot be written" in registration.topic_mistakes(queue, closed)["carrier"][0]
    unknown = replace(topic, may_write=None)
    assert registration.topic_mistakes(queue, unknown) == {}


def test_a_start_needs_its_companion(provider: Provider) -> None:
    topic = a_topic(provider)
    assert "start_time" in refused(a_queue(provider, topic, start_from="time"))
    assert "start_group" in refused(a_queue(provider, topic, start_from="group"))
    assert "start_from" in refused(a_queue(provider, topic, start_from=""))


def test_an_error_queue_is_inbound_sequential_and_marked(provider: Provider) -> None:
    plain = a_queue(provider, a_topic(provider), kind="sequential")
    plain.save()
    queue = a_queue(provider, a_topic(provider), error_queue=plain)
    assert plain.name in refused(queue)["error_queue"][0]
    plain.is_error_queue = True
    plain.save()
    registration.check(queue)
    wrong = a_queue(provider, a_topic(provider), is_error_queue=True)
    assert "is_error_queue" in refused(wrong)
    assert "strict_order" in refused(a_queue(provider, a_topic(provider), strict_order=True))


def test_an_error_queue_stays_one_while_it_is_fed(provider: Provider) -> None:
    errors = a_queue(provider, a_topic(provider), kind="sequential", is_error_queue=True)
    errors.save()
    feeding = a_queue(provider, a_topic(provider), error_queue=errors)
    feeding.save()
    errors.is_error_queue = False
    assert feeding.name in refused(errors)["is_error_queue"][0]
    feeding.delete()
    registration.check(errors)


def test_error_queues_form_no_circle(provider: Provider) -> None:
    made = []
    for _ in range(2):
        topic = a_topic(provider)
        made.append(a_queue(provider, topic, kind="sequential", is_error_queue=True))
        made[-1].save()
    first, second = made
    first.error_queue = first
    assert "circle" in refused(first)["error_queue"][0]
    first.error_queue = second
    first.save()
    second.error_queue = first
    assert "circle" in refused(second)["error_queue"][0]


def test_provider_topic_and_kind_stay_while_the_queue_has_a_position(provider: Provider) -> None:
    queue = a_queue(provider, a_topic(provider), kind="sequential")
    queue.save()
    other = Provider.objects.create(name="o", bootstrap_servers=provider.bootstrap_servers)
    queue.topic, queue.kind, queue.provider = a_topic(provider), "continuous", other
    registration.check(queue)
    registration.register(Queue.objects.get(pk=queue.pk))
    assert set(refused(queue)) == {"topic", "kind", "provider"}


def test_an_open_failure_alone_keeps_the_topic_too(provider: Provider) -> None:
    queue = a_queue(provider, a_topic(provider))
    queue.save()
    a_failure(queue)
    queue.topic = a_topic(provider)
    assert set(refused(queue)) == {"topic"}
    MessageError.objects.update(state="RESOLVED")
    registration.check(queue)


def a_failure(queue: Queue, **fields) -> None:
    now = timezone.now()
    MessageError.objects.create(
        queue=queue,
        topic_uuid="u",
        partition=0,
        offset=1,
        state="HOLD",
        failure_class="permanent",
        code="X",
        first_failed_at=now,
        last_failed_at=now,
        **fields,
    )


def test_a_key_in_the_document_needs_one_partition_and_a_queue_that_uses_it(
    provider: Provider,
) -> None:
    """Messages of one such key may lie in several partitions."""
    several, one = a_topic(provider, partitions=2), a_topic(provider)
    by_document = {"ordering": "key", "order_path": "$.num"}
    mistakes = refused(a_queue(provider, several, **by_document))
    assert "2 partitions" in mistakes["order_path"][0]
    for fields in ({"order_path": "$.num"}, {"ordering": "key", "order_path": "num["}):
        assert "order_path" in unclean(a_queue(provider, one, **fields))
    queue = a_queue(provider, one, **by_document)
    registration.check(queue)
    queue.save()
    a_failure(queue, order_key=b"A")
    queue.order_path = "$.other"
    assert "order_path" in unclean(queue), "keys of open failures were read otherwise"


def test_other_changes_can_be_saved_while_the_broker_is_down(provider: Provider) -> None:
    queue = a_queue(provider, a_topic(provider))
    queue.save()
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    queue = Queue.objects.get(pk=queue.pk)
    queue.description = "changed"
    registration.check(queue)


def test_beginning_and_end_are_resolved_once(provider: Provider) -> None:
    topic = a_topic(provider, partitions=2)
    write(provider, topic, b"1", b"2", b"3")
    write(provider, topic, b"1", partition=1)
    from_start = a_queue(provider, topic)
    from_start.save()
    first = registration.register(from_start)
    assert [(p.partition, p.next_offset) for p in first] == [(0, 0), (1, 0)]
    from_end = a_queue(provider, topic, start_from="end", direction="outbound")
    from_end.save()
    assert [p.next_offset for p in registration.register(from_end)] == [3, 1]
    write(provider, topic, b"4")
    again = registration.register(from_end)
    assert [p.next_offset for p in again] == [3, 1]
    assert len({p.topic_uuid for p in first + again}) == 1


def test_a_time_and_a_group_are_resolved_and_previewed(provider: Provider) -> None:
    topic = a_topic(provider)
    since = timezone.now().replace(microsecond=0)
    stamp_ms = round(since.timestamp() * 1000)
    write(provider, topic, b"1", b"2", stamp_ms=stamp_ms - 1)
    write(provider, topic, b"3", b"4", b"5", stamp_ms=stamp_ms)
    group = f"group-{uuid.uuid4().hex[:8]}"
    member = Consumer({"bootstrap.servers": provider.bootstrap_servers, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    member.close()

    queue = a_queue(provider, topic, start_from="time", start_time=since, start_group=group)
    queue.save()
    found = {c.start_from: (c.reads, c.skips) for c in registration.preview_start(queue)}
    assert found == {"beginning": (5, 0), "end": (0, 5), "time": (3, 2), "group": (1, 4)}
    assert registration.register(queue)[0].next_offset == 2
    queue.partitions.all().delete()
    queue.start_from = "group"
    queue.save()
    assert registration.register(queue)[0].next_offset == 4


def test_a_group_without_or_beyond_its_position_is_refused(provider: Provider) -> None:
    topic = a_topic(provider)
    queue = a_queue(provider, topic, start_from="group", start_group="nobody-knows-it")
    queue.save()
    assert code_of_start(queue) == "GROUP_NO_POSITION"
    group = f"group-{uuid.uuid4().hex[:8]}"
    member = Consumer({"bootstrap.servers": provider.bootstrap_servers, "group.id": group})
    member.commit(offsets=[TopicPartition(topic, 0, 400)], asynchronous=False)
    member.close()
    queue.start_group = group
    queue.save()
    assert code_of_start(queue) == "GROUP_BEYOND_END"
    assert not queue.partitions.exists()


def code_of_start(queue: Queue) -> str | None:
    """The code at the field of the group with which its position is refused."""
    with pytest.raises(ValidationError) as refused:
        registration.register(queue)
    (problem,) = refused.value.error_dict["start_group"]
    return problem.code


def test_new_partitions_start_at_their_beginning(provider: Provider) -> None:
    topic = a_topic(provider)
    queue = a_queue(provider, topic, start_from="end")
    queue.save()
    registration.register(queue)
    client = AdminClient({"bootstrap.servers": provider.bootstrap_servers})
    client.create_partitions([NewPartitions(topic, 3)])[topic].result()
    deadline = time.monotonic() + 10
    facts = admin.topic_facts(provider, topic)
    while facts is None or facts.partitions < 3:
        assert time.monotonic() < deadline
        facts = admin.topic_facts(provider, topic)
    added = queue.partitions.filter(partition__gt=0).order_by("partition")
    for _ in range(2):
        assert add_new_partitions(queue, facts) is Addition.DONE
        assert list(added.values_list("partition", "next_offset")) == [(1, 0), (2, 0)]
    queue.kind = "sequential"
    queue.partitions.filter(partition=2).delete()
    assert add_new_partitions(queue, facts) is Addition.DONE
    assert [row.partition for row in added] == [1]


def test_what_the_cluster_says_about_a_topic(provider: Provider) -> None:
    name = a_topic(provider, partitions=2, retention_bytes="5000000", max_message_bytes="2000")
    topic = admin.describe(provider, name)
    assert (topic.partitions, topic.replication, topic.min_insync_replicas) == (2, 1, 1)
    assert (topic.retention_ms, topic.retention_bytes) == (WEEK * 1000, 5_000_000)
    assert (topic.max_message_bytes, topic.is_compacted, topic.deletes_old) == (2000, False, True)
    assert [remark.split(" ")[1] for remark in admin.remarks(topic)] == ["has", "also"]
    assert admin.create_topic(provider, name) is False
    assert name in admin.topics(provider)


def test_a_cluster_that_answers_and_one_that_does_not(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach = admin.reachable(provider)
    assert reach.ok
    assert reach.brokers == 1
    provider.bootstrap_servers = "127.0.0.1:1"
    provider.properties = {"socket.connection.setup.timeout.ms": 1000}
    wait_a_moment(monkeypatch)
    silent = admin.reachable(provider)
    assert not silent.ok
    assert silent.text.startswith("BROKER_UNREACHABLE: ")
    assert "bootstrap servers" in silent.next_step
    with pytest.raises(BrokerUnreachableError):
        admin.topic_facts(provider, "any")
