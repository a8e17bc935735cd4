"""Retries of a handler's own and what it does when they are spent, on the real database."""

import uuid

import pytest

from integration.handlers import Constant, PermanentError, TransientError, inbound, publish_to
from integration.handlers.registry import registry
from integration.message import Message
from integration.models import EnterpriseService, MessageError, OutboxRow, Queue
from integration.policy.failure import Failure
from integration.runs.queues import run_queue
from integration.testing import an_outbound_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect, Unique

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

SPENT = "SPENT"


def note(message: Message, failure: Failure) -> None:
    """Write and publish, then fail as the message says."""
    Effect.objects.create(
        message_id=failure.code, interface=SPENT, n=-1, arrival_batch=0, arrival_place=0
    )
    publish_to("out", {"why": failure.code})
    if message.body.get("hook") == "twice":
        Unique.objects.create(name="twice")
        Unique.objects.create(name="twice")


@pytest.fixture(autouse=True)
def handler():
    @inbound(SPENT, retry=Constant(0, retries=1), on_exhausted=note)
    def take(message: Message) -> None:
        Effect.objects.create(
            message_id="", interface=SPENT, n=message.body["n"], arrival_batch=0, arrival_place=0
        )
        if message.body.get("do") == "permanent":
            raise PermanentError("Never.")
        if message.body.get("do") != "ok":
            raise TransientError("Again.")

    yield
    registry._by_interface.pop(SPENT)


@pytest.fixture
def queue(servers) -> Queue:
    an_outbound_queue("out", topic=f"out-{uuid.uuid4().hex[:8]}")
    service = EnterpriseService.objects.create(interface=SPENT)
    broker = Kafka(servers.kafka_bootstrap)
    made = a_queue(broker, default_service=service, max_retries=9)
    broker.send(made.topic, [{"n": 1, "do": "ok"}, {"n": 2}, {"n": 3, "do": "permanent"}])
    broker.send(made.topic, [{"n": 4, "hook": "twice"}])
    return made


def test_hold_and_hook_are_one_commit_and_a_hook_that_fails_leaves_nothing(queue):
    for _ in range(3):
        run_queue(queue.pk)
    held = MessageError.objects.filter(queue=queue, state="HOLD").order_by("offset")
    assert [(row.code, row.attempts, row.retry_by) for row in held] == [
        ("TRANSIENT_ERROR", 2, "handler"),
        ("PERMANENT_ERROR", 1, ""),
        ("EXHAUSTED_HOOK_FAILED", 2, "handler"),
    ]
    assert "UNIQUE_VIOLATION" in held[2].text
    assert "TRANSIENT_ERROR: Again." in held[2].text
    assert sorted(Effect.objects.values_list("n", flat=True)) == [-1, 1]
    assert OutboxRow.objects.filter(kind="MESSAGE").count() == 1
    assert not Unique.objects.exists()


def test_what_the_service_says_goes_before_and_counts_from_the_next_batch(queue):
    EnterpriseService.objects.filter(interface=SPENT).update(
        backoff="constant", retry_delay_seconds=0, max_retries=0
    )
    run_queue(queue.pk)
    row = MessageError.objects.get(queue=queue, offset=1)
    assert (row.state, row.attempts, row.retry_by) == ("HOLD", 1, "service")
