"""Kill the worker at every step of its threads, then account for every message in SQL.

What is tested: a child process works a queue in four threads, with failures, published messages and
keys that keep their order; it is killed (or stopped past its lease) while the threads are at
different points of their transactions. Then each offset has ended once, the effects equal the
input, those of a key came about in the order of the log, and whatever was written when, a message
is as old as its place in the log.
"""

import os
import signal

import pytest

from integration.delivery.steps import Step
from integration.models import MessageError, PartitionLease, Queue, QueuePartition
from tests.crash.test_engine_crash import SHORT_LEASE, account, child, finish, wait_until_overdue
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks, await_kill
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 160
KEYS = 12
THREADS = 4
# The first thread to get there, and of what that has left one of those after some have committed.
MOMENTS = {
    Step.HANDLED: (1, 7),
    Step.SETTLED: (1, 7),
    Step.COMMITTED: (1, 7),
    Step.BEGUN: (7,),
    Step.UNDONE: (1,),
}


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def queue(broker) -> Queue:
    a_queue(broker, name="out", direction="outbound")
    fields = {"max_retries": 3, "batch_size": 40, "stay_seconds": 0.1, "ordering": "key"}
    return a_queue(broker, concurrency=THREADS, **fields)


def sent(broker: Kafka, queue: Queue) -> list[dict]:
    """Some fail at their first try, and those of their keys that follow are parked."""
    deeds = []
    for n in range(MESSAGES):
        do = "publish" if n % 10 == 0 else "until" if n % 23 == 5 else "ok"
        do = "permanent" if n == MESSAGES - 3 else do
        deeds.append({"n": n, "do": do, "until": 2})
    broker.send_keyed(queue.topic, [(f"k{deed['n'] % KEYS}", deed) for deed in deeds])
    return deeds


def check_order() -> None:
    effects = list(Effect.objects.order_by("pk").values_list("n", flat=True))
    for key in range(KEYS):
        of_key = [n for n in effects if n % KEYS == key]
        assert of_key == sorted(of_key), f"key k{key}"
    by_age = Effect.objects.order_by("arrival_batch", "arrival_place")
    assert list(by_age.values_list("n", flat=True)) == sorted(effects)


@pytest.mark.parametrize("step", MOMENTS)
def test_a_kill_in_the_threads_loses_and_doubles_nothing(queue, broker, child_environment, step):
    deeds = sent(broker, queue)
    for nth in MOMENTS[step]:
        killed = child(queue, child_environment, step, nth, "KILL")
        await_kill(killed, nth)

    finish(queue)
    account(queue, deeds)
    check_order()
    place = QueuePartition.objects.get(queue=queue)
    assert (place.next_offset, place.done_ahead) == (MESSAGES, [])


def test_an_owner_stopped_in_its_threads_is_replaced_and_writes_nothing_afterwards(
    queue, broker, child_environment
):
    deeds = sent(broker, queue)
    # One thread has locked the row by then, others wait for it.
    stopped = child(queue, child_environment | SHORT_LEASE, Step.SETTLED, 6, "STOP")
    try:
        stopped.wait_until_stopped()
        wait_until_overdue(queue)
        finish(queue)
        taken = PartitionLease.objects.get(partition__queue=queue).epoch
        os.kill(stopped.pid, signal.SIGCONT)
        output, _ = stopped.communicate(timeout=30)
    finally:
        stopped.kill()
    account(queue, deeds)
    check_order()
    assert PartitionLease.objects.get(partition__queue=queue).epoch == taken
    assert output.startswith(b"LOST "), output


def test_a_message_that_kills_the_process_among_others_is_held(broker, child_environment):
    queue = a_queue(broker, stay_seconds=0.1, crash_limit=2, concurrency=THREADS)
    deeds = [{"n": n, "do": "kill" if n == 9 else "ok"} for n in range(20)]
    broker.send_keyed(queue.topic, [(f"k{n % 5}", deed) for n, deed in enumerate(deeds)])
    for _ in range(8):
        run = child(queue, child_environment, "none", 1, "KILL")
        run.communicate(timeout=60)
        await_free_locks()
        if run.returncode == 0:
            break
    assert run.returncode == 0
    row = MessageError.objects.get()
    assert (row.state, row.code, row.offset) == ("HOLD", "PROCESS_CRASH", 9)
    assert sorted(Effect.objects.values_list("n", flat=True)) == [n for n in range(20) if n != 9]
