"""Kafka dies, or falls silent, under a queue's run, a relay and a source, and comes back.

What is tested: nothing is lost, doubled or given up for it, and nobody waits for it for ever. How:
a Kafka of this module's own is killed by SIGKILL or stopped by SIGSTOP.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from devstack.kafka import Kafka as KafkaServer
from devstack.servers import in_folder
from integration.delivery.relay.run import RelayEnd
from integration.delivery.steps import Step
from integration.kafka import admin
from integration.kafka.errors import BrokerUnreachableError
from integration.kafka.source import KafkaSource, consumer_group, open_source
from integration.models import ErrorAttempt, MessageError, Provider, Queue, QueuePartition
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from integration.store import branches
from integration.values import TroubleKind
from tests.functional.relay_world import a_provider, nothing_left, put, states
from tests.support.at_step import AtStep
from tests.support.builders import a_queue
from tests.support.flows import drain, effects, ended, standing
from tests.support.kafka_session import with_session
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES, BATCH = 60, 10
ROWS = 3_000
BACK_SECONDS = 60.0
# A Kafka that was killed serves again only when its controller has missed it for so long.
SESSION_SECONDS = 3


@pytest.fixture(scope="module")
def mortal_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """A Kafka of this module's own, to be killed."""
    described = in_folder(tmp_path_factory.mktemp("outages") / "set", durable=False)
    private = with_session(described, SESSION_SECONDS)
    try:
        private.kafka.start()
        yield private.kafka
    finally:
        private.destroy()


@pytest.fixture
def broker(mortal_kafka: KafkaServer, servers: object) -> Kafka:
    return Kafka(mortal_kafka.bootstrap)


@pytest.fixture
def provider(broker: Kafka) -> Provider:
    return a_provider(bootstrap_servers=broker.bootstrap)


def until(condition: Callable[[], object], seconds: float = BACK_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.02)


def a_full_queue(broker: Kafka, **fields: object) -> Queue:
    queue = a_queue(broker, **{"batch_size": BATCH, "stay_seconds": 0.1} | fields)
    broker.send(queue.topic, [{"n": n} for n in range(MESSAGES)])
    return queue


def test_a_broker_that_dies_in_a_batch_costs_nothing(
    mortal_kafka: KafkaServer, broker: Kafka
) -> None:
    """What the client has fetched already is applied; then the run notices and ends by itself."""
    queue = a_full_queue(broker, stay_seconds=20)
    dies = AtStep(Step.BEGUN, 2, mortal_kafka.kill)
    try:
        began = time.monotonic()
        report = run_queue(queue.pk, observer=dies)
        # A worker's slot must not be lost to a broker that is gone (45 s in the client's closing).
        assert time.monotonic() - began < 30
        assert dies.left <= 0
        reached, state, code = standing(queue)
        assert reached > 0
        assert effects() == list(range(reached))
        assert report.ending == "OUTAGE", report
        assert (state, code) == ("OUTAGE", "KAFKA_UNAVAILABLE")
        assert not MessageError.objects.exists()
        # Nobody asks before it is time, and asking costs nothing either.
        assert drain(queue).ending == "OUTAGE"
    finally:
        mortal_kafka.start()
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=0.1)
    until(lambda: has_recovered(queue))
    assert effects() == list(range(MESSAGES))
    assert ended(queue) == dict.fromkeys(range(MESSAGES), "APPLIED")
    assert not MessageError.objects.exists()
    assert not ErrorAttempt.objects.exists()


@pytest.mark.parametrize("step", [Step.SETTLED, Step.PREPARED], ids=str)
def test_a_broker_that_dies_in_a_two_phase_commit_leaves_both_or_neither(
    mortal_kafka: KafkaServer, broker: Kafka, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """Before its records are confirmed the partition waits; later Kafka is asked what it has."""
    monkeypatch.setattr("integration.kafka.publisher.COMMIT_SECONDS", 1.0)
    monkeypatch.setattr("integration.kafka.publisher.OPEN_SECONDS", 3.0)
    monkeypatch.setattr("integration.kafka.publisher.delivery_seconds", lambda _: 0.0)
    queue = a_queue(broker, batch_size=BATCH, stay_seconds=0.1, two_phase=True)
    a_queue(broker, name="out", direction="outbound")
    broker.send(queue.topic, [{"n": n, "do": "publish"} for n in range(2 * BATCH)])
    comes_back = threading.Timer(5.0, mortal_kafka.resume)

    def stop() -> None:
        mortal_kafka.pause()
        # What is not published ends the run by itself: Kafka stands still until then.
        if step is Step.PREPARED:
            comes_back.start()

    try:
        report = run_queue(queue.pk, observer=AtStep(step, 1, stop))
    finally:
        if step is Step.PREPARED:
            comes_back.join()
        mortal_kafka.resume()
    assert report.ending in {"OUTAGE", "DRAINED"}, report
    if step is Step.SETTLED:
        assert standing(queue) == (0, "OUTAGE", "NOT_PUBLISHED")
    until(lambda: has_recovered(queue, 2 * BATCH))
    assert effects() == list(range(2 * BATCH))
    topic = Queue.objects.get(name="out").topic
    assert [int(one.key()) for one in broker.read_all(topic)] == effects()
    assert branches.left() == []
    assert not MessageError.objects.exists()


def has_recovered(queue: Queue, count: int = MESSAGES) -> bool:
    if standing(queue) == (count, "RUNNING", ""):
        return True
    QueuePartition.objects.filter(queue=queue, state="OUTAGE").update(resume_at=None)
    drain(queue)
    return False


def test_a_broker_that_falls_silent_keeps_no_slot_when_a_run_ends(
    mortal_kafka: KafkaServer, broker: Kafka
) -> None:
    """A commit under way would keep the client's closing waiting for its answer."""
    queue = a_full_queue(broker)
    source = open_source(queue.provider, topic=queue.topic, queue_name=queue.name)
    source.attach({0: 0})
    until(lambda: source.fetch(BATCH, 0.5).records)
    source.commit_to_group({0: 1})
    until(lambda: is_committed(source, broker, queue))
    mortal_kafka.pause()
    try:
        source.commit_to_group({0: 2})
        began = time.monotonic()
        source.close()
        assert time.monotonic() - began < 15
    finally:
        mortal_kafka.resume()


def is_committed(source: KafkaSource, broker: Kafka, queue: Queue) -> bool:
    source.fetch(BATCH, 0.1)
    return broker.committed(consumer_group(queue.name), queue.topic) == 1


def test_a_broker_that_dies_costs_a_relay_and_a_source_nothing(
    mortal_kafka: KafkaServer, broker: Kafka, provider: Provider
) -> None:
    """Nothing is dead, lost or doubled, and the source tells of it and reads on afterwards.

    Nor is anything lost that the broker had acknowledged.
    """
    topic, read, kept = a_topic(provider), a_topic(provider), a_topic(provider)
    values = [b"%d" % n for n in range(ROWS)]
    third = ROWS // 3
    put(provider, *values[:third], topic=topic)
    source = open_source(provider, topic=read, queue_name="outage")
    source.attach({0: 0})
    with relaying(provider) as ends:
        until(lambda: "PUBLISHED" in states())
        assert source.facts() is not None
        put(provider, *values[third : 2 * third], topic=topic)
        broker.send(kept, [b"acknowledged"])
        mortal_kafka.kill()
        try:
            assert not mortal_kafka.is_answering()
            put(provider, *values[2 * third :], topic=topic)
            tells_of_the_outage(source)
        finally:
            mortal_kafka.start()
        until(nothing_left)
        put(provider, b"after", topic=read)
        reads_on(source)
    source.close()
    assert ends == [RelayEnd.STOPPED]
    assert Counter(states()) == {"PUBLISHED": ROWS + 1}
    assert [record.value() for record in broker.read_all(topic)] == values
    assert [record.value() for record in broker.read_all(kept)] == [b"acknowledged"]


def a_topic(provider: Provider) -> str:
    name = f"outage-{uuid.uuid4().hex[:10]}"
    admin.create_topic(provider, name, partitions=1)
    return name


@contextmanager
def relaying(provider: Provider) -> Iterator[list[RelayEnd]]:
    """A relay at work within the block; how it ended is in the list afterwards."""
    over, ends = threading.Event(), []
    thread = threading.Thread(
        target=lambda: ends.append(run_relay(provider.pk, 0, stop=over.is_set))
    )
    thread.start()
    try:
        yield ends
    finally:
        over.set()
        thread.join()


def tells_of_the_outage(source: KafkaSource) -> None:
    kinds: set[TroubleKind] = set()
    deadline = time.monotonic() + 20
    while TroubleKind.UNAVAILABLE not in kinds:
        assert time.monotonic() < deadline
        kinds |= {trouble.kind for trouble in source.fetch(10, 0.5).troubles}
    asked = time.monotonic()
    with pytest.raises(BrokerUnreachableError):
        source.facts()
    assert time.monotonic() - asked < 30


def reads_on(source: KafkaSource) -> None:
    found: list[bytes | None] = []
    deadline = time.monotonic() + 20
    while not found:
        assert time.monotonic() < deadline
        found = [record.value for record in source.fetch(10, 0.5).records.get(0, [])]
    assert found == [b"after"]
    assert source.facts() is not None
