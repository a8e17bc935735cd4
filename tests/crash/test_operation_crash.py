"""Every message of an operation is changed once, wherever its runner dies.

How: a child process carries out an operation over 1,200 messages and is killed with SIGKILL at
each step in turn, or stopped with SIGSTOP past its lease; a second runner goes on. Then SQL says
whether every item has exactly one outcome and every message exactly one line of history.
Meanwhile messages are deleted, moved by the engine, and the operation is paused.
"""

import signal
import threading
import time

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from crontasks.running.operating import run_operation
from integration.actions import failures, operation_trials, operations
from integration.actions.errors import StateMismatchError
from integration.actions.operation_items import OperationStep
from integration.models import MessageError, MessageTrack, Operation, OutboxRow
from integration.policy.operations import CHUNK_ROWS
from integration.policy.states import OperationState
from integration.store import operations as store
from tests.support import warm
from tests.support.celery_world import eventually
from tests.support.operations import plan, started
from tests.support.rows import a_place, a_queue_row
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 1_200
RECIPE = '[{"op":"replace","path":"/n","value":1}]'
# Passed once in a run; the others by every chunk.
ONCE = {OperationStep.TAKEN, OperationStep.LEFT}
FIRST = [(step, 1) for step in OperationStep if step is not OperationStep.LEFT]
# Each goes on from where the one before has died.
MOMENTS = [
    *FIRST,
    *[(step, 3) for step in OperationStep if step not in ONCE],
    (OperationStep.LEFT, 1),
]
HALF_WAY = [OperationStep.CHANGED, OperationStep.COMMITTED]
# Chunks so small that all of them find enough.
FEW = 50
FILL = """
INSERT INTO integration_messageerror (
  id, queue_id, topic_uuid, partition, "offset", message_id, interface, sender, headers, payload,
  edited_by, state, failure_class, code, text, detail, fingerprint, attempts, retry_no, spent,
  crashes, carrier, arrival_batch, arrival_index, late, apply_as_newest, version,
  first_failed_at, last_failed_at, ended)
SELECT gen_random_uuid(), %s, 'first-topic', 0, n, 'm-' || n, '', '', '[]',
  convert_to('{"n":0,"at":' || n || '}', 'UTF8'), '', 'HOLD', 'permanent', 'X', '', '', 'f', 1, 0,
  0, 0, 'row', 1, n, false, false, 1, now(), now(), '' FROM generate_series(0, %s) n
"""
# As the batch in which all of them failed has left them.
TRACKED = """
INSERT INTO integration_messagetrack (queue_id, partition, "offset", arrival_batch, message_id,
  interface, ended, external_id, batch_rows)
SELECT queue_id, partition, "offset", arrival_batch, message_id, '', 'HOLD', 'order-' || "offset",
  CASE "offset" WHEN 0 THEN %s END FROM integration_messageerror
"""
ITEMS = """
SELECT count(*), count(*) FILTER (WHERE outcome = 'DONE'), count(*) FILTER (WHERE outcome = '')
FROM integration_operationitem WHERE operation_id = %s
"""
TOLD = """
SELECT count(*), count(DISTINCT error_id) FROM integration_errorchange
WHERE operation = %s AND action = %s
"""
# A message that the operation has done, and whose version is not what it left behind.
DOUBLED = """
SELECT count(*) FROM integration_operationitem i
JOIN integration_messageerror e ON e.id = i.error_id
WHERE i.operation_id = %s AND i.outcome = 'DONE' AND e.version <> i.version_after
"""


def filled() -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    with connection.cursor() as cursor:
        cursor.execute(FILL, [queue.pk, MESSAGES - 1])


def a_started(verb: str = "release", **options) -> Operation:
    filled()
    operation = plan(verb)
    if verb == "edit":
        operations.set_recipe(operation.pk, RECIPE, version=1)
        operation_trials.go_on_trying(operation.pk, seconds=30)
        operation.refresh_from_db()
    return started(operation, reason="crash test", **options)


def answers(sql: str, *parameters) -> tuple:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()


def child(
    operation: Operation, environment: dict, step: str, nth: int, name: str, most: int = CHUNK_ROWS
) -> WarmChild:
    words = [str(operation.pk), step, str(nth), name, str(most)]
    words = ["-m", "tests.crash.operation_child", *words]
    process = warm.child(words, environment, text=True, errors=False)
    process.expect_line("there")
    return process


def killed_at(
    operation: Operation, environment: dict, step: str, nth: int, most: int = CHUNK_ROWS
) -> None:
    process = child(operation, environment, step, nth, "SIGKILL", most)
    assert process.wait(10) == -signal.SIGKILL
    process.stdout.close()


def wait_until_overdue(operation: Operation) -> None:
    """Until the dead runner's lease is over; one that had left it has none."""
    held = Operation.objects.filter(pk=operation.pk, lease_until__gte=Now())
    eventually(lambda: not held.exists())


def finish(operation: Operation) -> None:
    """Go on as the dispatcher would: as soon as the dead runner's lease is over."""
    deadline = time.monotonic() + 30
    while run_operation(operation.pk, stop=lambda: None) is not OperationState.DONE:
        assert time.monotonic() < deadline, "nobody could go on"
        if Operation.objects.get(pk=operation.pk).state == OperationState.DONE:
            break
        time.sleep(0.1)


def account(operation: Operation, done: int = MESSAGES, action: str = "release") -> None:
    assert answers(ITEMS, operation.pk) == (MESSAGES, done, 0)
    assert answers(TOLD, operation.pk, action) == (done, done), "told twice, or not at all"
    assert answers(DOUBLED, operation.pk) == (0,)
    operation.refresh_from_db()
    assert (operation.handled, operation.done) == (MESSAGES, done)


@pytest.mark.timeout(400)
def test_a_kill_at_any_step_skips_and_doubles_nothing(child_environment):
    """At each in turn, in its first chunk and in its third; each goes on with what is left."""
    operation = a_started()
    for step, nth in MOMENTS:
        killed_at(operation, child_environment, step, nth, FEW)
        assert told_alike(operation), (step, nth)
        wait_until_overdue(operation)
    finish(operation)
    account(operation)
    assert MessageError.objects.filter(state="READY", version=2).count() == MESSAGES


def told_alike(operation: Operation) -> bool:
    """Whether what is told of messages is what is told of the operation's items."""
    total, done, waiting = answers(ITEMS, operation.pk)
    told = answers(TOLD, operation.pk, "release")
    return (
        total == done + waiting and told == (done, done) and answers(DOUBLED, operation.pk) == (0,)
    )


def test_an_edit_that_dies_half_way_changes_each_message_once(child_environment):
    operation = a_started("edit", release_after_edit=True)
    for step in HALF_WAY:
        killed_at(operation, child_environment, step, 3)
        wait_until_overdue(operation)
    finish(operation)
    account(operation, action="edit")
    account(operation, action="release")
    assert MessageError.objects.filter(state="READY", version=3).count() == MESSAGES


def test_dead_letters_are_sent_back_once_each_wherever_it_dies(child_environment):
    filled()
    MessageError.objects.update(origin_topic="orders")
    with connection.cursor() as cursor:
        cursor.execute(TRACKED, [MESSAGES])
    operation = started(plan("send back"))
    for step in HALF_WAY:
        killed_at(operation, child_environment, step, 3)
        wait_until_overdue(operation)
    finish(operation)
    account(operation, action="send back")
    sent = OutboxRow.objects.values_list("topic", "message_id")
    assert len(sent) == len(set(sent)) == MESSAGES
    assert MessageError.objects.filter(state="RESOLVED", ended="RETURNED").count() == MESSAGES
    told = MessageTrack.objects.filter(ended="RETURNED").values_list("message_id", "external_id")
    assert sorted(told) == sorted((f"m-{n}", f"order-{n}") for n in range(MESSAGES))


@pytest.mark.parametrize("step", [OperationStep.TAKEN, OperationStep.COMMITTED])
def test_a_runner_that_was_stopped_past_its_lease_does_nothing_when_it_wakes(
    child_environment, step
):
    operation = a_started()
    process = child(operation, child_environment, step, 1, "SIGSTOP")
    try:
        finish(operation)
        process.send_signal(signal.SIGCONT)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    account(operation)


def test_two_runners_at_once_share_nothing():
    """Each of two is told again and again that the other's lease is over."""
    operation = a_started()
    ends: list[object] = []

    def runner() -> None:
        try:
            while Operation.objects.get(pk=operation.pk).state == "RUNNING":
                Operation.objects.filter(pk=operation.pk).update(lease_until=None)
                ends.append(run_operation(operation.pk, stop=lambda: "next", turn_seconds=0))
        finally:
            connection.close()

    threads = [threading.Thread(target=runner) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(ends) > 2
    account(operation)


def test_people_and_the_engine_at_work_meanwhile_are_left_in_peace():
    """While it runs, messages are deleted and moved, and the operation is paused twice.

    Who is faster gets the message: everybody else is told, or leaves it alone.
    """
    # Slow until all decisions are made, however busy the machine is.
    operation = a_started(rate=50)
    theirs = list(operation.items.order_by("-place").values_list("error", flat=True)[:600])

    def runner() -> None:
        try:
            while Operation.objects.get(pk=operation.pk).state != "DONE":
                run_operation(operation.pk, stop=lambda: None)
        finally:
            connection.close()

    thread = threading.Thread(target=runner)
    thread.start()
    lost = 0
    for place, error_id in enumerate(theirs[:100]):
        if place in {20, 60}:
            pause_and_go_on(operation)
        try:
            failures.delete(error_id, version=1, actor="anna", reason="not needed")
        except StateMismatchError:
            lost += 1
    held = MessageError.objects.filter(pk__in=theirs[100:], state="HOLD")
    moved = held.update(state="RESOLVED", version=F("version") + 1)
    version = Operation.objects.get(pk=operation.pk).version
    operations.change_rate(operation.pk, None, version=version, actor="anna")
    thread.join(60)
    deleted = 100 - lost
    assert deleted + moved > 0, "nobody was faster than the operation"
    assert MessageError.objects.filter(state="DELETED", version=2).count() == deleted
    done = MESSAGES - deleted - moved
    account(operation, done=done)
    assert MessageError.objects.filter(state="READY").count() == done


def pause_and_go_on(operation: Operation) -> None:
    operations.pause(operation.pk, actor="anna")
    before = Operation.objects.get(pk=operation.pk)
    assert store.take(operation.pk, "nobody") is None, "paused"
    after = Operation.objects.get(pk=operation.pk)
    assert after.handled == before.handled
    operations.resume(operation.pk, version=after.version, actor="anna")
