"""Records that are too large for their topic: only they are dead, whatever they travel with."""

import base64
import os
import time

import pytest

from integration.models import MessageError, OutboxRow, Queue
from integration.runs.relay import run_relay
from tests.support.builders import a_brief_queue as a_queue
from tests.support.flows import drain, effects, held, standing
from tests.support.kafka_world import Kafka

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Above the client's own packets (100 kB), so that what is small always fits.
LIMIT = 200_000
LARGE = base64.b64encode(os.urandom(LIMIT)).decode()  # nothing to compress


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def relay(queue: Queue) -> None:
    deadline = time.monotonic() + 40

    def done() -> bool:
        assert time.monotonic() < deadline, "the relay did not get there"
        return not OutboxRow.objects.filter(state__in=["PENDING", "STAMPED"]).exists()

    run_relay(queue.provider_id, 0, stop=done)


def narrow(broker: Kafka) -> str:
    return broker.topic(**{"max.message.bytes": str(LIMIT)})


def test_a_copy_over_the_error_topics_limit_is_dead_and_its_failure_stays(broker):
    error_queue = a_queue(broker, "sequential", is_error_queue=True, topic=narrow(broker))
    queue = a_queue(broker, max_retries=0, error_queue=error_queue)
    sent = [{"n": n, "do": "permanent" if n % 3 else "ok"} for n in range(12)]
    sent[4]["text"] = LARGE
    broker.send(queue.topic, sent)
    drain(queue)
    failed = [n for n in range(12) if n % 3]
    assert held(queue) == dict.fromkeys(failed, "REFUSED")

    relay(queue)

    rows = {row.offset: row for row in MessageError.objects.filter(queue=queue)}
    dead = OutboxRow.objects.get(state="DEAD")
    assert (dead.kind, dead.error) == ("MIRROR", rows[4].id)
    assert dead.dead_code == "MSG_SIZE_TOO_LARGE"
    assert (rows[4].state, rows[4].code) == ("HOLD", "REFUSED")
    copies = broker.read_all(error_queue.topic)
    copied = [dict(copy.headers())["sluice-error"].decode() for copy in copies]
    assert copied == [str(rows[n].id) for n in failed if n != 4]
    # Its failure is released and succeeds as if nothing had been.
    MessageError.objects.filter(offset=4).update(state="READY", edited_payload=b'{"n": 100}')
    drain(queue)
    assert effects() == [0, 3, 6, 9, 100]
    drain(error_queue)
    assert not MessageError.objects.filter(queue=error_queue).exists()
    assert standing(error_queue)[1:] == ("RUNNING", "")


def test_a_published_record_over_its_topics_limit_is_dead_alone(broker):
    out = a_queue(broker, name="out", direction="outbound", topic=narrow(broker))
    queue = a_queue(broker, max_retries=0)
    sent = [{"n": n, "do": "publish", "text": LARGE if n == 3 else ""} for n in range(8)]
    broker.send(queue.topic, sent)
    drain(queue)
    assert effects() == list(range(8))

    relay(queue)

    dead = OutboxRow.objects.get(state="DEAD")
    assert (dead.topic, bytes(dead.key), dead.dead_code) == (out.topic, b"3", "MSG_SIZE_TOO_LARGE")
    assert [int(m.key()) for m in broker.read_all(out.topic)] == [0, 1, 2, 4, 5, 6, 7]
    assert OutboxRow.objects.filter(state="PUBLISHED").count() == 7
    assert not MessageError.objects.exists()


def test_a_retry_marker_for_a_topic_that_refuses_it_leaves_the_retry_to_its_row(broker):
    """Keys and headers count too: a retry marker has no value and can be too large all the same."""
    queue = a_queue(
        broker,
        carrier="topic",
        retry_delay_seconds=0,
        max_retries=3,
        topic=broker.topic(**{"max.message.bytes": "2000"}),
    )
    key = os.urandom(1_850)
    broker.send(queue.topic, [{"n": 0}])
    broker.send(queue.topic, [{"n": 1, "do": "until", "until": 2}], key=key)
    drain(queue)
    assert OutboxRow.objects.get().kind == "TICKET"

    relay(queue)

    assert OutboxRow.objects.get().state == "DEAD"
    assert MessageError.objects.get().carrier == "row"
    drain(queue)
    assert effects() == [0, 1]
    assert MessageError.objects.get().state == "RESOLVED"
