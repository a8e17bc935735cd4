"""A broker dies that has the only copy of a topic, and one of the two of another; it comes back.

What is tested: the relay sends what goes to other topics; then the topic gets all that waited for
it, in order and once. A topic with too few copies in sync may hold up the shard, and is named. How:
a Kafka of two brokers, of which the second is killed by SIGKILL.
"""

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from devstack import ports
from devstack.kafka import Kafka as KafkaServer
from devstack.servers import in_folder
from integration.delivery.relay import left_out
from integration.delivery.relay.run import RelayEnd
from integration.kafka import admin
from integration.kafka.ailing import MOST_ASKED
from integration.models import Provider, RelayLease
from integration.runs.relay import publisher_for, run_relay
from tests.functional.relay_world import a_provider, put, states
from tests.support.celery_world import eventually
from tests.support.kafka_pair import NUMBER, second_beside, topic_on
from tests.support.kafka_session import with_session
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# A broker that was killed is missed, and may come back, only after this.
SESSION_SECONDS = 3
ENOUGH_SECONDS = 150.0


@pytest.fixture
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaServer, KafkaServer]]:
    """A Kafka of this test's own, and a second broker that was not started yet."""
    folder = tmp_path_factory.mktemp("pair")
    private = with_session(in_folder(folder / "set", durable=False), SESSION_SECONDS)
    first = private.kafka
    second = second_beside(first, folder / "second", ports.choose(), SESSION_SECONDS)
    try:
        first.start()
        yield first, second
    finally:
        second.kill()
        private.destroy()


@pytest.fixture
def provider(
    brokers: tuple[KafkaServer, KafkaServer], servers: object, monkeypatch: pytest.MonkeyPatch
) -> Provider:
    """The cluster, of which all that fails fails soon."""
    monkeypatch.setattr("integration.kafka.publisher.OPEN_SECONDS", 3.0)
    monkeypatch.setattr(left_out, "FIRST_LOOK_SECONDS", 1.0)
    quick = {"delivery.timeout.ms": 2_000}
    return a_provider(bootstrap_servers=brokers[0].bootstrap, properties=quick)


@contextmanager
def relaying(provider: Provider) -> Iterator[None]:
    """A relay at work within the block."""
    over = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        end = thread.submit(run_relay, provider.pk, 0, stop=over.is_set)
        try:
            yield
        finally:
            over.set()
    assert end.result() is RelayEnd.STOPPED


def all_sent(*rows: int) -> None:
    """Wait until these are sent; until all are where none is named."""
    eventually(lambda: set(states(*rows)) == {"PUBLISHED"}, seconds=ENOUGH_SECONDS)


def values(broker: Kafka, topic: str) -> list[bytes | None]:
    return [message.value() for message in broker.read_all(topic)]


@pytest.mark.timeout(600)
def test_a_topic_whose_only_broker_died_holds_up_no_other(
    brokers: tuple[KafkaServer, KafkaServer], provider: Provider
) -> None:
    first, second = brokers
    well, ill, short = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("well", "ill", "short"))
    admin.create_topic(provider, well, partitions=1)
    with relaying(provider):
        # Kafka's own topics are there then, on the first broker.
        all_sent(*put(provider, b"0", topic=well))
        second.start()
        topic_on(first, ill, [NUMBER])
        topic_on(first, short, [1, NUMBER], {"min.insync.replicas": "2"})
        all_sent(*put(provider, b"a", topic=ill), *put(provider, b"x", topic=short))
        # The last batch is at stake as well when one fails: this one has no other topic in it.
        all_sent(*put(provider, b"-", topic=well))
        second.kill()
        waiting = put(provider, b"b", topic=ill)
        all_sent(*put(provider, b"1", topic=well))
        waiting += put(provider, b"c", topic=ill)
        all_sent(*put(provider, b"2", topic=well))
        assert set(states(*waiting)) == {"PENDING"}
        assert ill in RelayLease.objects.get().trouble
        many = [well, ill, *(f"nobody-made-it-{number}" for number in range(MOST_ASKED))]
        assert list(publisher_for(provider.pk, 0).ailing(many)) == [ill]
        put(provider, b"y", topic=short)
        # Left out, or named as what keeps the relay from beginning.
        eventually(lambda: short in RelayLease.objects.get().trouble, seconds=ENOUGH_SECONDS)
        second.start()
        all_sent()
        eventually(lambda: RelayLease.objects.get().trouble == "")
    broker = Kafka(first.bootstrap)
    assert values(broker, well) == [b"0", b"-", b"1", b"2"]
    assert values(broker, ill) == [b"a", b"b", b"c"]
    assert values(broker, short) == [b"x", b"y"]
