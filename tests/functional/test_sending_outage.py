"""An endpoint that is away under load: a real worker, a real partner over HTTP that answers 503."""

import json
import subprocess
import sys
import time
import urllib.request

import pytest
from django.db.models import F
from django.db.models.functions import Now

from crontasks.models import CronInstance
from devstack import ports
from integration.models import Delivery, EndpointCircuit, MessageError, Queue, QueuePartition
from integration.policy import circuit
from tests.functional.test_dispatcher_processes import flush_broker
from tests.support.celery_world import celery_world, eventually
from tests.support.kafka_world import Kafka
from tests.support.partners import an_endpoint, an_outbound_queue, numbers, post

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# By then it is asked as seldom as ever.
AWAY_SECONDS = 5.0
# Of the five seconds until delivery goes on, the part that no load of the machine can stretch.
PAUSE_SECONDS = circuit.LONGEST_PAUSE_SECONDS * (1 + circuit.JITTER)
MESSAGES = 300


@pytest.fixture
def partner():
    """`python -m bench.partner`, 10 ms an answer; yields its address."""
    port = ports.choose()
    process = subprocess.Popen([sys.executable, "-m", "bench.partner", str(port), "10"])
    address = f"http://127.0.0.1:{port}/"
    try:
        eventually(lambda: answers(address))
        yield address
    finally:
        process.kill()
        process.wait()


def answers(address: str) -> bool:
    try:
        return bool(ask(address))
    except OSError:
        return False


def ask(address: str, method: str = "GET") -> dict:
    request = urllib.request.Request(address, method=method)  # noqa: S310 - our own http address
    with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - as above
        return json.loads(answer.read() or b"{}")


def two_queues(broker: Kafka, address: str) -> list[Queue]:
    """One endpoint, a queue that sends one by one and a queue that sends two at once."""
    endpoint = an_endpoint(
        endpoint_type="http", properties={"url": address, "private_network": True}
    )
    first = an_outbound_queue(broker, endpoint=endpoint, stay_seconds=30)
    second = an_outbound_queue(
        broker, "continuous", endpoint=endpoint, concurrency=2, stay_seconds=30
    )
    post(broker, first, MESSAGES)
    post(broker, second, MESSAGES, first=MESSAGES)
    return [first, second]


def pauses() -> list[float]:
    """Seconds until it is tried again, by the database's clock: the endpoint, each partition."""
    rows = [
        EndpointCircuit.objects.filter(state="OPEN"),
        QueuePartition.objects.filter(state="OUTAGE"),
    ]
    left = [
        row.annotate(left=F("resume_at") - Now()).values_list("left", flat=True) for row in rows
    ]
    return [pause.total_seconds() for of in left for pause in of]


def test_an_outage_costs_no_retry_and_ends_soon_after_the_recovery(
    servers, partner, child_environment, tmp_path
):
    CronInstance.objects.all().delete()
    flush_broker(child_environment)
    queues = two_queues(Kafka(servers.kafka_bootstrap), partner)
    with celery_world(child_environment, tmp_path) as world:
        worker = world.worker("a", concurrency=2)
        eventually(lambda: ask(partner)["posts"] > 40, worker)
        ask(partner + "down", "PUT")
        eventually(lambda: EndpointCircuit.objects.filter(state="OPEN").exists(), worker)
        time.sleep(AWAY_SECONDS)
        before = ask(partner)["posts"]
        assert before < 2 * MESSAGES, "the load was over before the outage was"
        states = QueuePartition.objects.values_list("state", "state_code")
        assert ("OUTAGE", "ENDPOINT_DOWN") in states
        waiting = eventually(pauses, worker)
        assert max(waiting) <= PAUSE_SECONDS
        ask(partner + "up", "PUT")
        done = {queue.pk: MESSAGES for queue in queues}
        eventually(lambda: dict(positions()) == done, worker)
    everything_arrived_once_and_in_order(partner)


def everything_arrived_once_and_in_order(partner: str) -> None:
    assert not MessageError.objects.exists()
    arrived = numbers(ask(partner + "order")["order"])
    assert sorted(arrived) == list(range(2 * MESSAGES))
    assert [n for n in arrived if n < MESSAGES] == list(range(MESSAGES))
    assert ask(partner)["posts"] == 2 * MESSAGES
    assert set(Delivery.objects.values_list("state", flat=True)) == {"DELIVERED", "FAILED"}


def positions() -> list[tuple[int, int]]:
    return list(QueuePartition.objects.values_list("queue_id", "next_offset"))
