"""Kill a queue that commits in two phases at every step: what is published goes with its effects.

What is tested: a batch is in the database exactly when what it published is in Kafka. How: a child
is ended by SIGKILL at each step of a run, in turn, among them between the prepared transaction and
Kafka's commit, and between that and the second commit of the database; a last run goes on. Then
effects and records are counted. The same where the owner stands still meanwhile and comes back, and
where its session with the database ends.
"""

import random
import signal
from uuid import uuid4

import pytest
from django.conf import settings
from django.db import connection

from crontasks.builtin import lag_monitor
from integration.actions.two_phase import BranchNotInDoubtError, decide
from integration.delivery.report import RunEnding
from integration.delivery.steps import Step
from integration.models import MessageError, OutboxChange, OutboxRow, Queue, QueuePartition
from integration.policy.branches import Branch
from integration.runs.branches import publisher_of, settle_all, transactional_id
from integration.runs.queues import run_queue
from integration.store import branches
from integration.store.sessions import raw_connection
from integration.values import TopicFacts
from tests.crash.test_engine_crash import wait_until_overdue
from tests.support import warm
from tests.support.at_step import AtStep
from tests.support.builders import a_brief_queue, a_queue
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]
MESSAGES, BATCH = 80, 5
STEPS = [
    *(Step.BEGUN, Step.HANDLED, Step.SETTLED),
    *(Step.WRITTEN, Step.PREPARED, Step.DECIDED, Step.COMMITTED),
]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker: Kafka) -> Queue:
    made = a_brief_queue(broker, two_phase=True, batch_size=BATCH)
    limit = {"max.message.bytes": "20000"}
    a_queue(broker, name="out", direction="outbound", topic=broker.topic(**limit))
    return made


def end_session() -> None:
    """End the session of the run's transaction, as a server does that is started again."""
    with raw_connection("killer") as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])


def killed_at(queue: Queue, environment: dict[str, str], step: Step, nth: int = 2) -> None:
    words = ["-m", "tests.support.crash_child", str(queue.pk), step, str(nth), "KILL"]
    child = warm.child(words, environment)
    await_kill(child, step)


def published(broker: Kafka) -> list[int]:
    topic = Queue.objects.get(name="out").topic
    return [int(one.key()) for one in broker.read_all(topic)]


def applied() -> list[int]:
    return list(Effect.objects.order_by("id").values_list("n", flat=True))


def send(broker: Kafka, queue: Queue, count: int = MESSAGES) -> None:
    broker.send(queue.topic, [{"n": n, "do": "publish"} for n in range(count)])


def test_a_kill_at_any_step_leaves_both_or_neither(
    broker: Kafka, queue: Queue, child_environment: dict[str, str]
) -> None:
    held = range(0, MESSAGES, 20)
    does = ["permanent" if n in held else "publish" for n in range(MESSAGES)]
    broker.send(queue.topic, [{"n": n, "do": do} for n, do in enumerate(does)])
    for step in STEPS:
        killed_at(queue, child_environment, step)
    run_queue(queue.pk)
    good = [n for n in range(MESSAGES) if n not in held]
    assert applied() == good
    assert published(broker) == good
    assert MessageError.objects.filter(state="HOLD").count() == len(held)
    assert QueuePartition.objects.get(queue=queue).next_offset == MESSAGES
    assert not OutboxRow.objects.exists()
    assert branches.left() == []


def test_an_owner_that_stood_still_decides_nothing_any_more(
    broker: Kafka, queue: Queue, child_environment: dict[str, str]
) -> None:
    """It stops between the two commits; who takes over rolls the batch back, and works it anew."""
    send(broker, queue, BATCH)
    environment = child_environment | {"SLUICE_LEASE_SECONDS": "1"}
    words = ["-m", "tests.support.crash_child", str(queue.pk), Step.PREPARED, "1", "STOP"]
    child = warm.child(words, environment)
    try:
        child.wait_until_stopped()
        assert branches.left() != []
        wait_until_overdue(queue)
        run_queue(queue.pk)
        assert applied() == list(range(BATCH))
        assert published(broker) == list(range(BATCH))
    finally:
        child.send_signal(signal.SIGCONT)
    said, _ = child.communicate(timeout=60)
    assert RunEnding.LOST in said.decode(), said
    assert applied() == published(broker) == list(range(BATCH))
    assert branches.left() == []


@pytest.mark.parametrize("step", [Step.WRITTEN, Step.PREPARED, Step.DECIDED])
def test_a_session_that_ends_in_between_doubles_nothing(
    broker: Kafka, queue: Queue, step: Step
) -> None:
    send(broker, queue, 2 * BATCH)
    report = run_queue(queue.pk, observer=AtStep(step, 1, end_session))
    assert report.ending is RunEnding.LOST
    run_queue(queue.pk)
    assert applied() == published(broker) == list(range(2 * BATCH))
    assert branches.left() == []


def test_what_a_paused_queue_was_left_with_is_settled(
    broker: Kafka, queue: Queue, child_environment: dict[str, str]
) -> None:
    send(broker, queue, 2 * BATCH)
    killed_at(queue, child_environment, Step.DECIDED, 1)
    Queue.objects.filter(pk=queue.pk).update(paused=True)
    assert applied() == []
    [left] = branches.left()
    with pytest.raises(BranchNotInDoubtError):
        decide(str(left.branch), commit=False, actor="anna", reason="Kafka knows better.")
    assert settle_all() == 0
    assert applied() == published(broker) == list(range(BATCH))


def test_what_kafka_has_forgotten_waits_for_a_person(
    broker: Kafka, queue: Queue, child_environment: dict[str, str]
) -> None:
    send(broker, queue, BATCH)
    killed_at(queue, child_environment, Step.DECIDED, 1)
    group = transactional_id(queue.provider_id, queue.pk, 0)
    broker.admin.delete_consumer_groups([group])[group].result(10)
    run_queue(queue.pk)
    assert settle_all() == 1
    assert applied() == []
    # Who writes down what is seen of partitions does not wait for this one.
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '1s'")
    partition = QueuePartition.objects.get(queue=queue)
    lag_monitor.write(queue.pk, TopicFacts(partition.topic_uuid, {0: 0}, {0: BATCH}))
    connection.close()
    [left] = branches.left()
    assert (left.branch.queue, left.branch.next_offset) == (queue.pk, BATCH)
    decide(str(left.branch), commit=True, actor="anna", reason="All five are in the topic.")
    assert applied() == published(broker) == list(range(BATCH))
    run_queue(queue.pk)
    assert branches.left() == []
    assert OutboxChange.objects.get().to_state == "COMMIT"


def test_what_an_earlier_database_of_that_name_decided_is_in_nobody_s_way(
    broker: Kafka, queue: Queue, child_environment: dict[str, str]
) -> None:
    """A database was set up anew, or is restored: its batches' numbers begin below the last one."""
    publisher = publisher_of(queue.pk, 0)
    publisher.open()
    later = Branch(settings.SLUICE_DEPLOYMENT, queue.pk, 0, 9 * BATCH, 7, 10**9, uuid4())
    publisher.write_watermark(str(later))
    publisher.close()
    send(broker, queue, 2 * BATCH)
    killed_at(queue, child_environment, Step.PREPARED, 1)
    assert branches.left() != []
    run_queue(queue.pk)
    assert branches.left() == []
    assert applied() == published(broker) == list(range(2 * BATCH))


def test_a_record_that_kafka_refuses_is_its_message_s_failure(broker: Kafka, queue: Queue) -> None:
    long = random.randbytes(15_000).hex()
    does = [{"n": n, "do": "publish", "text": long if n == 3 else ""} for n in range(BATCH)]
    broker.send(queue.topic, does)
    run_queue(queue.pk)
    good = [n for n in range(BATCH) if n != 3]
    assert applied() == published(broker) == good
    error = MessageError.objects.get()
    assert (error.offset, error.state, error.code) == (3, "HOLD", "MSG_SIZE_TOO_LARGE")


def test_a_queue_changes_its_way_to_commit_and_keeps_its_position(
    broker: Kafka, queue: Queue
) -> None:
    for way in (True, False, True):
        Queue.objects.filter(pk=queue.pk).update(two_phase=way)
        send(broker, queue, BATCH)
        run_queue(queue.pk)
    assert applied() == [*range(BATCH)] * 3
    assert published(broker) == [*range(BATCH)] * 2
    assert OutboxRow.objects.filter(state="PENDING").count() == BATCH
