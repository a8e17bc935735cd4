"""Kill the worker at every step of the engine, then account for every message in SQL.

What is tested: a child process that runs a queue is ended by SIGKILL (or stopped by SIGSTOP past
its lease) at each Step in turn, also in the middle of a statement and while a COMMIT is under
way. A second run finishes the queue. How: the Step values that metrics use are enumerated; the
child kills itself when the step is reported; nothing is mocked. Then SQL says whether each offset
ended exactly once and whether the effects equal the input.
"""

import os
import random
import signal
import time

import pytest
from django.db import connection
from django.db.models.functions import Now

from integration.delivery.steps import Step
from integration.models import (
    MessageError,
    MessageTrack,
    OutboxRow,
    PartitionLease,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks, await_kill
from tests.support.warm import WarmChild
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Five batches and more, with failures of each kind among them.
MESSAGES, BATCH = 200, 40
# Nobody asks for the partition before its owner is stopped.
SHORT_LEASE = {"SLUICE_LEASE_SECONDS": "0.5"}
# Not reached by an ordinary run: only a crash suspect gets a marker, and a kill of its own below.
# An inbound queue calls no endpoint; tests.crash.test_sending_crash has the steps of one that does.
TWO_PHASE = {Step.WRITTEN, Step.PREPARED, Step.DECIDED, Step.FINISHED}
SPECIAL = {Step.MARKED, Step.INTENDED, Step.SENT} | TWO_PHASE
STEPS = [step for step in Step if step not in SPECIAL]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def child(queue: Queue, environment: dict, step: str, nth: int, name: str) -> WarmChild:
    words = [str(queue.pk), step, str(nth), name]
    return warm.child(["-m", "tests.support.crash_child", *words], environment)


def mixed(count: int) -> list[dict]:
    """Mostly good messages that publish; one in 97 fails for good, one in 89 at the first try."""
    deeds = []
    for n in range(count):
        do = "publish" if n % 10 == 0 else "ok"
        if n % 97 == 50:
            do = "permanent"
        elif n % 89 == 50:
            do = "until"
        deeds.append({"n": n, "do": do, "until": 2})
    return deeds


def account(queue: Queue, sent: list[dict]) -> None:
    """Every offset ended exactly once; effects and published rows equal what was asked for."""
    with connection.cursor() as cursor:
        cursor.execute(
            'SELECT "offset" FROM integration_messagetrack WHERE queue_id = %s '
            "AND ended NOT IN ('RETRY', 'STALE', 'PARKED') "
            'GROUP BY "offset" HAVING count(*) <> 1',
            [queue.pk],
        )
        assert cursor.fetchall() == [], "offsets that ended more than once"
    ended = MessageTrack.objects.filter(queue=queue).exclude(ended__in=["RETRY", "STALE", "PARKED"])
    assert set(ended.values_list("offset", flat=True)) == set(range(len(sent)))
    applied = [m["n"] for m in sent if m["do"] != "permanent"]
    assert sorted(Effect.objects.values_list("n", flat=True)) == applied
    held = [m["n"] for m in sent if m["do"] == "permanent"]
    rows = MessageError.objects.filter(queue=queue, state="HOLD").values_list("offset", flat=True)
    assert sorted(rows) == held
    published = sorted(int(bytes(row.key)) for row in OutboxRow.objects.filter(kind="MESSAGE"))
    assert published == [m["n"] for m in sent if m["do"] == "publish"]


def finish(queue: Queue) -> None:
    """Run until nothing is left to do, as the dispatcher would."""
    for _ in range(30):
        run_queue(queue.pk)
        if not MessageError.objects.filter(queue=queue, state__in=["RETRY", "READY"]).exists():
            return
    raise AssertionError("The queue never came to rest.")


@pytest.fixture
def crowded(broker) -> Queue:
    a_queue(broker, name="out", direction="outbound")
    return a_queue(broker, max_retries=3, batch_size=BATCH, stay_seconds=0.1)


# Steps that a run passes once, or so rarely that a fourth time need not come.
ONCE = {Step.TAKEN, Step.ATTACHED, Step.UNDONE, Step.GROUP_COMMITTED, Step.RELEASED}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_loses_and_doubles_nothing(crowded, broker, child_environment, step):
    """The first time it comes; of what that has left, where it comes more often, the fourth."""
    sent = mixed(MESSAGES)
    broker.send(crowded.topic, sent)
    # The position is committed to the group once a second: the run has to last that long.
    lasting = Queue.objects.filter(pk=crowded.pk)
    lasting.update(stay_seconds=20 if step is Step.GROUP_COMMITTED else crowded.stay_seconds)

    for nth in (1,) if step in ONCE else (1, 4):
        killed = child(crowded, child_environment, step, nth, "KILL")
        await_kill(killed, nth)

    lasting.update(stay_seconds=crowded.stay_seconds)
    finish(crowded)
    account(crowded, sent)


@pytest.mark.parametrize("nth", [1, 4])
def test_a_kill_right_after_a_suspects_marker_loses_and_doubles_nothing(
    crowded, broker, child_environment, nth
):
    sent = mixed(4 * BATCH)
    broker.send(crowded.topic, sent)
    # Two unclean ends at one position make suspects of the batch that was in work.
    for step, at in ((Step.FETCHED, 1), (Step.FETCHED, 1), (Step.MARKED, nth)):
        killed = child(crowded, child_environment, step, at, "KILL")
        await_kill(killed, step)
    place = QueuePartition.objects.get(queue=crowded)
    assert (place.next_offset, place.suspect_offset) == (nth - 1, nth - 1)

    finish(crowded)
    account(crowded, sent)


def test_a_kill_in_the_middle_of_a_statement_frees_the_lock_and_loses_nothing(
    crowded, broker, child_environment
):
    sent = [{"n": 0}, {"n": 1}]
    broker.send(crowded.topic, sent)
    slow = "CREATE RULE slow AS ON INSERT TO world_effect DO ALSO SELECT pg_sleep(30)"
    with connection.cursor() as cursor:
        cursor.execute(slow)
    victim = child(crowded, child_environment, "none", 1, "KILL")
    wait_for_statement("%world_effect%")
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '5s'")
    victim.kill()
    victim.wait()
    with connection.cursor() as cursor:
        # Granted only once the killed process's transaction is gone.
        cursor.execute("DROP RULE slow ON world_effect")
    finish(crowded)
    assert sorted(Effect.objects.values_list("n", flat=True)) == [0, 1]


def wait_for_statement(pattern: str) -> None:
    for _ in range(200):
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
                "AND query LIKE %s AND pid <> pg_backend_pid()",
                [pattern],
            )
            if cursor.fetchone()[0]:
                return
        time.sleep(0.05)
    raise AssertionError("The child never got to its statement.")


@pytest.mark.parametrize("step", [Step.FETCHED, Step.BEGUN, Step.HANDLED, Step.SETTLED])
def test_a_stopped_owner_is_replaced_after_its_lease_and_writes_nothing_afterwards(
    crowded, broker, child_environment, step
):
    sent = mixed(4 * BATCH)
    broker.send(crowded.topic, sent)
    stopped = child(crowded, child_environment | SHORT_LEASE, step, 2, "STOP")
    try:
        stopped.wait_until_stopped()
        lost = PartitionLease.objects.get(partition__queue=crowded).epoch
        wait_until_overdue(crowded)
        finish(crowded)
        taken = PartitionLease.objects.get(partition__queue=crowded).epoch
        assert taken > lost
        ended = set(MessageTrack.objects.values_list("id", flat=True))
        os.kill(stopped.pid, signal.SIGCONT)
        output, _ = stopped.communicate(timeout=30)
    finally:
        stopped.kill()

    account(crowded, sent)
    # It neither took the partition back nor wrote anything.
    assert PartitionLease.objects.get(partition__queue=crowded).epoch == taken
    assert set(MessageTrack.objects.values_list("id", flat=True)) == ended
    # Wherever it wakes up, the next thing it asks of its session tells that it is gone.
    assert output.startswith(b"LOST "), output


def wait_until_overdue(queue: Queue) -> None:
    """Until the database's clock is past the lease that the stopped owner no longer extends."""
    for _ in range(200):
        overdue = PartitionLease.objects.filter(partition__queue=queue, lease_until__lt=Now())
        if overdue.exists():
            return
        time.sleep(0.05)
    raise AssertionError("The lease never ran out.")


def test_a_message_that_kills_the_process_is_held_after_three_crashes(broker, child_environment):
    queue = a_queue(broker, stay_seconds=0.1, crash_limit=3)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "kill"}, {"n": 2}])
    for _ in range(8):
        run = child(queue, child_environment, "none", 1, "KILL")
        run.communicate(timeout=60)
        await_free_locks()
        if run.returncode == 0:
            break
    assert run.returncode == 0
    row = MessageError.objects.get()
    assert (row.state, row.code, row.offset) == ("HOLD", "PROCESS_CRASH", 1)
    assert sorted(Effect.objects.values_list("n", flat=True)) == [0, 2]


def test_a_thousand_messages_survive_kills_at_any_moment(broker, child_environment):
    """Kills at moments that nothing chose; then every record is where it belongs, once.

    The relay sends what was published, and a read_committed reader of the output topic counts.
    """
    out = a_queue(broker, name="out", direction="outbound")
    queue = a_queue(broker, max_retries=3, stay_seconds=0.1, batch_size=100)
    sent = mixed(1_200)
    kills = 0
    for begins in range(0, len(sent), 400):
        broker.send(queue.topic, sent[begins : begins + 400])
        before = Effect.objects.count()
        victim = child(queue, child_environment, "none", 1, "KILL")
        # However quick the machine is: a batch has ended, and most have not.
        while victim.poll() is None and Effect.objects.count() == before:
            time.sleep(0.005)
        time.sleep(random.uniform(0, 0.05))
        victim.kill()
        victim.communicate()
        await_free_locks()
        kills += victim.returncode == -signal.SIGKILL
    assert kills > 0, "every child had finished before it could be killed"

    finish(queue)
    account(queue, sent)
    relay_everything(out)
    keys = [int(message.key()) for message in broker.read_all(out.topic)]
    assert sorted(keys) == [m["n"] for m in sent if m["do"] == "publish"]


def relay_everything(out: Queue) -> None:
    deadline = time.monotonic() + 30

    def done() -> bool:
        pending = OutboxRow.objects.filter(state__in=["PENDING", "STAMPED"]).exists()
        return not pending or time.monotonic() > deadline

    run_relay(out.provider_id, 0, stop=done)
    assert not OutboxRow.objects.exclude(state="PUBLISHED").exists()
