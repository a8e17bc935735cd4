"""Kill or stop a rescue at each of its steps, let the topic forget, then account in SQL.

What is tested: a child process that rescues a paused queue is ended by SIGKILL (or stopped by
SIGSTOP past its lease) at each RescueStep. Another rescue goes on, the topic forgets everything,
and the queue is read: each record has one effect, in the order of the log.
"""

import os
import signal

import pytest
from django.db import connection

from integration.delivery.rescuing import RescueStep
from integration.models import Gap, Queue, QueuePartition, Rescue, RescuedRecord
from integration.runs.rescues import rescue_queue
from tests.crash.test_engine_crash import SHORT_LEASE, wait_until_overdue
from tests.support import warm
from tests.support.builders import a_brief_queue
from tests.support.flows import drain_past
from tests.support.kafka_world import Kafka
from tests.support.killed import await_kill
from tests.support.warm import WarmChild
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 450
# Those that come once; the others come with each piece of a hundred.
ONCE = {RescueStep.TAKEN, RescueStep.RELEASED}
FIRST = [(step, 1) for step in RescueStep if step is not RescueStep.RELEASED]
# Each goes on from where the one before has died.
MOMENTS = [
    *FIRST,
    *[(step, 3) for step in RescueStep if step not in ONCE],
    (RescueStep.RELEASED, 1),
]
# What is copied by all of them but the last, and some pieces for that one.
MANY = 1_250


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker) -> Queue:
    queue = a_brief_queue(broker, "sequential", paused=True)
    broker.send(queue.topic, [{"n": n} for n in range(MESSAGES)])
    return queue


def child(
    queue: Queue,
    environment: dict[str, str],
    step: str,
    nth: int,
    name: str,
    until: int = MESSAGES,
) -> WarmChild:
    words = [str(queue.pk), str(until), step, str(nth), name]
    return warm.child(["-m", "tests.support.rescue_child", *words], environment)


def forget_and_read(broker: Kafka, queue: Queue, count: int = MESSAGES) -> None:
    broker.delete_records(queue.topic, count)
    Queue.objects.filter(pk=queue.pk).update(paused=False)
    drain_past(queue, count)


def account(queue: Queue, count: int = MESSAGES) -> None:
    """Each offset ended once, and effects came about once each, in the order of the log."""
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT count(*), count(DISTINCT "offset") FROM integration_messagetrack '
            "WHERE queue_id = %s AND ended = 'APPLIED'",
            [queue.pk],
        )
        assert cursor.fetchone() == (count, count)
    assert list(Effect.objects.order_by("pk").values_list("n", flat=True)) == list(range(count))
    assert not Gap.objects.exists()


def stands_rescued(queue: Queue) -> list[tuple[int, int, int]]:
    ranges = Rescue.objects.filter(partition__queue=queue)
    return list(ranges.values_list("from_offset", "to_offset", "records"))


@pytest.mark.timeout(400)
def test_a_rescue_that_is_killed_at_any_step_loses_and_doubles_nothing(
    queue, broker, child_environment
):
    """At each in turn, in its first piece and in its third; each goes on with what is left."""
    broker.send(queue.topic, [{"n": n} for n in range(MESSAGES, MANY)])
    for step, nth in MOMENTS:
        killed = child(queue, child_environment, step, nth, "KILL", until=MANY)
        await_kill(killed, (step, nth))
        # Who dies while it copies says nothing about any message.
        assert QueuePartition.objects.get(queue=queue).unclean_ends == 0
        ranges = Rescue.objects.filter(partition__queue=queue)
        copied = sum(ranges.values_list("records", flat=True))
        assert RescuedRecord.objects.count() == copied, (step, nth)
    rescue_queue(queue, {0: MANY}, piece_records=100)
    assert stands_rescued(queue) == [(0, MANY, MANY)]
    assert RescuedRecord.objects.count() == MANY
    forget_and_read(broker, queue, MANY)
    account(queue, MANY)


@pytest.mark.parametrize("step", [RescueStep.READ, RescueStep.COPIED])
def test_a_rescue_that_stood_still_while_another_went_on_adds_nothing(
    queue, broker, child_environment, step
):
    stopped = child(queue, child_environment | SHORT_LEASE, step, 2, "STOP")
    try:
        stopped.wait_until_stopped()
        wait_until_overdue(queue)
        rescue_queue(queue, {0: MESSAGES}, piece_records=100)
        os.kill(stopped.pid, signal.SIGCONT)
        stopped.communicate(timeout=30)
    finally:
        stopped.kill()
    assert stands_rescued(queue) == [(0, MESSAGES, MESSAGES)]
    assert RescuedRecord.objects.count() == MESSAGES
    forget_and_read(broker, queue)
    account(queue)


def test_a_run_that_is_killed_among_what_was_rescued_goes_on_from_there(
    queue, broker, child_environment
):
    Queue.objects.filter(pk=queue.pk).update(batch_size=50)
    rescue_queue(queue, {0: MESSAGES})
    broker.delete_records(queue.topic, MESSAGES)
    Queue.objects.filter(pk=queue.pk).update(paused=False)
    for step in ("settled", "committed"):
        words = [str(queue.pk), step, "3", "KILL"]
        killed = warm.child(["-m", "tests.support.crash_child", *words], child_environment)
        await_kill(killed, step)
    drain_past(queue, MESSAGES)
    account(queue)
