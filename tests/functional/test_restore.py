"""A database restored from before the last batches: nothing acts until people have decided."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

import pytest
from confluent_kafka.admin import NewPartitions
from django.db import connection
from django.utils import timezone

from crontasks.dispatch.dispatcher import end_pauses
from integration.delivery.relay.run import RelayEnd
from integration.delivery.report import Report, RunEnding
from integration.kafka import admin, aftermath, looks
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.source import group_of
from integration.models import (
    ErrorChange,
    Gap,
    MessageError,
    OutboxChange,
    OutboxRow,
    Queue,
    QueueChange,
    QueuePartition,
    Restore,
    RestoreFinding,
)
from integration.restore import examining, options
from integration.restore.deciding import FindingDecidedError, decide
from integration.runs import relay as wiring
from integration.runs.queues import run_queue
from tests.support import restored
from tests.support.builders import a_provider, a_queue
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.rows import a_held
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
ENOUGH_LOOKS = 400


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def flow(broker: Kafka) -> Iterator[Queue]:
    """An inbound queue whose handler publishes, in a database that was backed up meanwhile.

    Before the backup: five messages read, three of what they published sent. After it: the other
    two were sent, and three messages more were read and their messages sent.
    """
    restored.own()
    provider = a_provider(broker.bootstrap)
    Queue.objects.create(
        name="out",
        provider=provider,
        topic=broker.topic(),
        direction="outbound",
        kind="continuous",
        start_from="beginning",
    )
    queue = a_queue(broker, "sequential", stay_seconds=0.1)
    read(broker, queue, range(3))
    relay()
    read(broker, queue, range(3, 5))
    restored.back_up()
    relay()
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=20.0)
    read(broker, queue, range(5, 8), stop=restored.once_noted(queue))
    relay()
    restored.restore()
    yield queue
    restored.drop_backup()


def read(broker: Kafka, queue: Queue, numbers: range, **options: Any) -> Report:
    broker.send(queue.topic, [{"n": n, "do": "publish"} for n in numbers])
    return run_queue(queue.pk, **options)


def relay() -> RelayEnd | None:
    """Send everything that waits, as far as relays may work at all."""
    end = None
    for provider, shard in wiring.shards():
        looks = iter(range(ENOUGH_LOOKS))

        def is_over(looks: Iterator[int] = looks) -> bool:
            assert next(looks, None) is not None, "the relay did not get there"
            return not OutboxRow.objects.filter(state__in=["PENDING", "STAMPED"]).exists()

        end = wiring.run_relay(provider, shard, stop=is_over)
    return end


def soon() -> Callable[[], bool]:
    """Let a relay settle, and look at it once or twice more."""
    return chain(repeat(False, 3), repeat(True)).__next__


def published(broker: Kafka) -> Counter[bytes]:
    """How often each message id is in the outgoing topic."""
    topic = Queue.objects.get(name="out").topic
    return Counter(dict(m.headers())["sluice-message-id"] for m in broker.read_all(topic))


def look() -> Restore:
    restore = examining.current()
    assert restore is not None
    return examining.look(restore)


def finding(kind: str) -> RestoreFinding:
    return RestoreFinding.objects.get(kind=kind, decided_at__isnull=True)


def test_nothing_moves_until_all_is_decided_and_then_nothing_is_sent_twice(broker, flow):
    assert run_queue(flow.pk).ending is RunEnding.STOPPED
    assert wiring.shards() == []
    assert Effect.objects.count() == 5
    assert sum(published(broker).values()) == 8

    found = look()

    assert found.noticed_by == "database"
    position, sent = finding("position"), finding("sent")
    assert (position.facts["from"], position.facts["to"]) == (5, 8)
    assert sorted(sent.facts["sent"]) == sorted(
        OutboxRow.objects.filter(state="PENDING").values_list("pk", flat=True)
    )
    assert run_queue(flow.pk).ending is RunEnding.STOPPED

    decide(position.pk, options.READ_AGAIN, actor="anna")
    run_queue(flow.pk)
    assert sorted(Effect.objects.values_list("n", flat=True)) == list(range(8))
    # The relay waits for its own decision.
    provider = Queue.objects.get(name="out").provider_id
    wiring.run_relay(provider, 0, stop=soon())
    assert sum(published(broker).values()) == 8

    told = decide(sent.pk, options.MARK_SENT, actor="anna", reason="seen by the partner")
    assert "everything continues" in told
    relay()

    counts = published(broker)
    # What was read again went out again under the ids it had; what was marked did not.
    assert len(counts) == 8
    assert sorted(counts.values()) == [1, 1, 1, 1, 1, 2, 2, 2]
    assert OutboxRow.objects.exclude(state="PUBLISHED").count() == 0
    assert OutboxChange.objects.get().count == 2
    assert QueueChange.objects.filter(queue=flow, actor="anna").count() == 1
    assert examining.current() is None


def test_kafka_alone_tells_a_restore_and_skipping_leaves_a_gap(broker, flow):
    """To where the lost database stood; the database itself cannot tell that it is an older one."""
    restored.forget_the_move()
    provider = Queue.objects.get(name="out").provider_id

    wiring.run_relay(provider, 0, stop=soon())

    assert sum(published(broker).values()) == 8
    restore = examining.current()
    assert restore is not None
    assert restore.noticed_by == "watermark"
    assert run_queue(flow.pk).ending is RunEnding.STOPPED
    assert wiring.shards() == []
    assert {f.kind for f in look().findings.all()} == {"position", "sent"}

    position = finding("position")
    decide(position.pk, options.SKIP, actor="anna", reason="booked by hand")
    with pytest.raises(FindingDecidedError, match="anna"):
        decide(position.pk, options.READ_AGAIN, actor="otto")
    decide(finding("sent").pk, options.SEND_ALL, actor="anna", reason="partner lost them")

    run_queue(flow.pk)
    relay()

    assert sorted(Effect.objects.values_list("n", flat=True)) == list(range(5))
    assert QueuePartition.objects.get(queue=flow).next_offset == 8
    gap = Gap.objects.get()
    assert (gap.from_offset, gap.to_offset, gap.acknowledged_by) == (5, 8, "anna")
    assert sorted(published(broker).values()) == [1] * 6 + [2] * 2


def test_what_had_failed_among_the_skipped_ones_is_not_applied_by_itself(broker, flow):
    place = QueuePartition.objects.get(queue=flow)
    waits = {"topic_uuid": place.topic_uuid, "headers": [], "interface": ""}
    a_held(flow, 5, state="RETRY", not_before=timezone.now(), payload=b'{"n": 5}', **waits)
    a_held(flow, 6, state="PROCESSING", epoch=place.epoch, payload=b'{"n": 6}', **waits)
    run_queue(flow.pk)
    look()

    decide(finding("position").pk, options.SKIP, actor="anna", reason="booked by hand")
    decide(finding("sent").pk, options.SEND_ALL, actor="anna", reason="partner lost them")
    run_queue(flow.pk)

    assert sorted(Effect.objects.values_list("n", flat=True)) == list(range(5))
    assert set(MessageError.objects.values_list("state", flat=True)) == {"HOLD"}
    changes = ErrorChange.objects.values_list("actor", "reason")
    assert list(changes) == [("anna", "booked by hand")] * 2


def test_where_nothing_was_lost_everything_goes_on_by_itself(broker):
    restored.own()
    queue = a_queue(broker, "sequential", stay_seconds=1.3)
    read(broker, queue, range(0))
    broker.send(queue.topic, [{"n": 1}])
    run_queue(queue.pk)
    restored.back_up()
    restored.restore()
    restored.drop_backup()
    broker.send(queue.topic, [{"n": 2}])

    assert run_queue(queue.pk).ending is RunEnding.STOPPED
    examining.look_if_noticed()

    assert examining.current() is None
    run_queue(queue.pk)
    assert sorted(Effect.objects.values_list("n", flat=True)) == [1, 2]


def test_a_cluster_that_does_not_answer_holds_what_it_serves(broker, monkeypatch):
    # Nobody else is asked: this is only waited for.
    monkeypatch.setattr(looks, "ANSWER_SECONDS", 1.0)
    restored.own()
    queue, other = a_queue(broker), a_queue(broker, name="other")
    queue.provider.bootstrap_servers = "127.0.0.1:1"
    queue.provider.save()
    # As it stood in the backup: until the morning.
    Queue.objects.filter(pk=other.pk).update(paused=True, paused_until=timezone.now())
    examining.declare("restored from the night's backup", "anna")

    examining.look_if_noticed()
    restore = examining.current()
    assert restore is not None
    assert restore.examined_at is None

    examining.look(restore)
    held = {one.facts["name"]: one for one in restore.findings.all()}
    assert all("main" in one.facts["problem"] for one in held.values())
    decide(held[queue.name].pk, options.READ_AGAIN, actor="anna")
    decide(held[other.name].pk, options.PAUSE, actor="anna")
    with connection.cursor() as cursor:
        assert end_pauses(cursor) == 0
    assert list(Queue.objects.filter(paused=True)) == [other]
    assert examining.current() is None


def test_a_topic_that_is_just_moving_holds_everything_until_it_can_be_asked(broker, monkeypatch):
    monkeypatch.setattr(looks, "look", lambda _provider, _topics: {})
    restored.own()
    queue = a_queue(broker)
    examining.declare("restored from the night's backup", "anna")

    examining.look_if_noticed()
    restore = examining.current()
    assert restore is not None
    assert restore.examined_at is None

    [held] = examining.look(restore).findings.all()
    assert held.queue == queue.pk
    assert f"{queue.topic} is moving" in held.facts["problem"]


def test_a_cluster_that_falls_silent_half_way_is_told_of_once(broker, flow, monkeypatch):
    def no_answer(provider, _transactional_id):
        raise BrokerUnreachableError(provider.name, "no answer in time")

    assert run_queue(flow.pk).ending is RunEnding.STOPPED
    # Its queues were asked about by then: there is a trace of one.
    monkeypatch.setattr(aftermath, "last_batch", no_answer)
    found = look().findings.all()
    assert sorted(one.kind for one in found) == ["position", "sent"]
    assert all("no answer" in one.facts["problem"] for one in found)


def test_a_partition_that_the_topic_got_since_the_backup_is_looked_at_too(broker):
    restored.own()
    queue = a_queue(broker)
    broker.admin.create_partitions([NewPartitions(queue.topic, 2)])[queue.topic].result(20)
    eventually(lambda: admin.describe(queue.provider, queue.topic).partitions == 2)
    broker.send(queue.topic, [{"n": 1}, {"n": 2}], partition=1)
    broker.commit(group_of(queue), queue.topic, 2, partition=1)
    examining.declare("restored from the night's backup", "anna")

    look()

    position = finding("position")
    assert (position.partition, position.facts["from"], position.facts["to"]) == (1, 0, 2)
    decide(position.pk, options.SKIP, actor="anna", reason="booked by hand")
    assert QueuePartition.objects.get(queue=queue, partition=1).next_offset == 2
