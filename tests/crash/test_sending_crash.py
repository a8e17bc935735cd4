"""Kill a sender at every step, then account for every message at the partner and in SQL.

What is tested: a child process that delivers a queue is ended by SIGKILL (or stopped by SIGSTOP
past its lease) at each Step of sending, and between a message's arrival and its answer. How: the
partner is a file with a line for each message that arrived, written with one system call; a
second run goes on. A partner that drops repeats has then each message once and in order; at one
that does not, nothing arrived twice, and what nobody can know is held as DELIVERY_UNKNOWN.
"""

import os
import signal

import pytest
from django.db.models import Count
from django.db.models.functions import Now
from django.utils import timezone

from integration.actions import failures
from integration.delivery.steps import Step
from integration.models import (
    Delivery,
    EndpointCircuit,
    MessageError,
    MessageTrack,
    PartitionLease,
    Queue,
    QueuePartition,
)
from tests.crash.test_engine_crash import SHORT_LEASE, wait_until_overdue
from tests.support import warm
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks, await_kill
from tests.support.partners import an_endpoint, an_outbound_queue, numbers, post, send
from tests.support.sending_child import FilePartner
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

MESSAGES = 14
# So many for each kill of a queue that is killed at one step after the other.
FEW = 6
AROUND_CALLS = [
    (Step.BEGUN, 4),
    (Step.SETTLED, 1),
    (Step.COMMITTED, 4),
    (Step.INTENDED, 1),
    (Step.SENT, 4),
    ("arrived", 4),
]
# Where nothing is sent, what the partner promises makes no difference.
BESIDE = [(Step.TAKEN, 1), (Step.ATTACHED, 1), (Step.FETCHED, 1), (Step.RELEASED, 1)]
IN_FLIGHT = [(Step.INTENDED, 3), (Step.SENT, 7), ("arrived", 9)]
PROMISES = pytest.mark.parametrize("idempotent", [True, False], ids=["drops", "keeps"])


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def child(queue: Queue, environment: dict, told: tuple) -> WarmChild:
    words = ["-m", "tests.support.sending_child", str(queue.pk), *map(str, told)]
    return warm.child(words, environment)


def arrived(path) -> list[int]:
    return numbers(path.read_text().split()) if path.exists() else []


def decide(queue: Queue, path) -> None:
    """What a person does: look whether it is there, then say so or release."""
    for row in MessageError.objects.filter(queue=queue, state="HOLD"):
        assert row.code == "DELIVERY_UNKNOWN"
        if row.offset in arrived(path):
            failures.arrived(row.pk, version=row.version, actor="ann", reason="It is there.")
        else:
            failures.release(row.pk, version=row.version, actor="ann", late=True)


def finish(queue: Queue, path, messages: int = MESSAGES) -> None:
    """Run and decide until nothing is left, as dispatcher and person would."""
    for _ in range(10):
        send(queue, FilePartner(path))
        decide(queue, path)
        open_ = MessageError.objects.filter(queue=queue).exclude(state="RESOLVED")
        at_end = QueuePartition.objects.get(queue=queue).next_offset == messages
        if at_end and not open_.exists():
            return
    raise AssertionError("The queue never came to rest.")


def account(queue: Queue, path, *, idempotent: bool, messages: int = MESSAGES) -> None:
    got = arrived(path)
    firsts = list(dict.fromkeys(got))
    assert sorted(firsts) == list(range(messages))
    if queue.is_sequential:
        assert firsts == sorted(firsts)
    if not idempotent:
        assert len(got) == messages, "something was sent twice"
    tracks = MessageTrack.objects.filter(queue=queue, ended="DELIVERED")
    twice = tracks.values("offset").annotate(times=Count("id")).filter(times__gt=1)
    assert not twice.exists()
    # One for each, also for those of which a person said that they had arrived.
    assert tracks.count() == messages
    ends = Delivery.objects.filter(queue=queue)
    assert not ends.filter(state__in=["SENDING", "UNKNOWN"]).exists()
    assert ends.filter(state="DELIVERED").values("offset").distinct().count() == messages


@pytest.mark.timeout(400)
@PROMISES
def test_a_kill_at_any_step_of_sending_loses_and_doubles_nothing(
    broker, child_environment, tmp_path, idempotent
):
    """At one after the other; before each the queue has come to rest."""
    endpoint = an_endpoint(idempotent=idempotent)
    queue = an_outbound_queue(broker, endpoint=endpoint, stay_seconds=0.1)
    path = tmp_path / "partner"
    posted = 0
    for step, nth in AROUND_CALLS if idempotent else [*AROUND_CALLS, *BESIDE]:
        post(broker, queue, FEW, first=posted)
        posted += FEW
        # The end of an outage is written with what ended it, by more than the one ordinary
        # statement.
        QueuePartition.objects.update(state="OUTAGE", resume_at=Now())

        killed = child(queue, child_environment, (path, step, nth, "KILL"))
        await_kill(killed, step)

        doubtful = Delivery.objects.filter(queue=queue, state="SENDING").count()
        report = send(queue, FilePartner(path))
        held = MessageError.objects.filter(queue=queue, code="DELIVERY_UNKNOWN", state="HOLD")
        assert held.count() == (0 if idempotent else doubtful), (step, report)
        assert Delivery.objects.filter(queue=queue, state="UNKNOWN").count() == held.count()
        finish(queue, path, posted)
        account(queue, path, idempotent=idempotent, messages=posted)


@pytest.mark.timeout(400)
@PROMISES
def test_a_kill_with_several_in_flight_loses_and_doubles_nothing(
    broker, child_environment, tmp_path, idempotent
):
    endpoint = an_endpoint(idempotent=idempotent)
    queue = an_outbound_queue(
        broker, "continuous", endpoint=endpoint, stay_seconds=0.1, concurrency=4, ordering="key"
    )
    path = tmp_path / "partner"
    posted = 0
    for step, nth in IN_FLIGHT:
        post(broker, queue, MESSAGES, keys=7, first=posted)
        posted += MESSAGES
        killed = child(queue, child_environment, (path, step, nth, "KILL"))
        await_kill(killed, step)

        finish(queue, path, posted)
        account(queue, path, idempotent=idempotent, messages=posted)
        for key in range(7):
            mine = [n for n in dict.fromkeys(arrived(path)) if n % 7 == key]
            assert mine == sorted(mine), step


@PROMISES
@pytest.mark.parametrize(("step", "nth"), [(Step.COMMITTED, 4), (Step.INTENDED, 4), ("arrived", 4)])
def test_a_stopped_sender_is_replaced_after_its_lease_and_settles_nothing_afterwards(
    broker, child_environment, tmp_path, step, nth, idempotent
):
    queue = an_outbound_queue(broker, endpoint=an_endpoint(idempotent=idempotent), stay_seconds=0.1)
    post(broker, queue, MESSAGES)
    path = tmp_path / "partner"
    stopped = child(queue, child_environment | SHORT_LEASE, (path, step, nth, "STOP"))
    try:
        stopped.wait_until_stopped()
        wait_until_overdue(queue)
        send(queue, FilePartner(path))
        taken = PartitionLease.objects.get(partition__queue=queue).epoch
        known = set(Delivery.objects.values_list("id", "state"))
        os.kill(stopped.pid, signal.SIGCONT)
        output, _ = stopped.communicate(timeout=30)
    finally:
        stopped.kill()
    assert PartitionLease.objects.get(partition__queue=queue).epoch == taken
    assert set(Delivery.objects.values_list("id", "state")) == known
    assert output.startswith(b"LOST "), output
    # What it was about to send when it was stopped it may have sent on waking: a person looks.
    finish(queue, path)
    account(queue, path, idempotent=idempotent)


def test_a_failure_in_flight_is_in_doubt_like_any_other(broker, child_environment, tmp_path):
    """The call came from the error table: its marker tells, and it is not simply tried again."""
    queue = an_outbound_queue(broker, "continuous", stay_seconds=0.1)
    post(broker, queue, MESSAGES)
    path = tmp_path / "partner"
    killed = child(queue, child_environment, (path, Step.INTENDED, 1, "KILL"))
    await_kill(killed, Step.INTENDED)
    send(queue, FilePartner(path))
    row = MessageError.objects.get()
    failures.release(row.pk, version=row.version, actor="ann", late=True)
    again = child(queue, child_environment, (path, "arrived", 1, "KILL"))
    await_kill(again, "arrived")
    assert MessageError.objects.get().state == "PROCESSING"
    send(queue, FilePartner(path))
    row.refresh_from_db()
    assert (row.state, row.code) == ("HOLD", "DELIVERY_UNKNOWN")
    finish(queue, path)
    account(queue, path, idempotent=False)


def test_a_message_in_doubt_is_not_sent_to_an_endpoint_that_was_chosen_since(
    broker, child_environment, tmp_path
):
    queue = an_outbound_queue(broker, endpoint=an_endpoint(), stay_seconds=0.1)
    post(broker, queue, 1)
    path = tmp_path / "partner"
    killed = child(queue, child_environment, (path, "arrived", 1, "KILL"))
    await_kill(killed, "arrived")
    queue.endpoint = an_endpoint(idempotent=True)
    queue.save()
    send(queue, FilePartner(path))
    row = MessageError.objects.get()
    assert (row.state, row.code) == ("HOLD", "DELIVERY_UNKNOWN")
    assert arrived(path) == [0]


def test_after_a_kill_in_a_probe_the_next_owner_tries_the_endpoint_at_once(
    broker, child_environment, tmp_path
):
    """The time of a probe that nobody hears of is that of the longest call."""
    endpoint = an_endpoint(idempotent=True)
    queue = an_outbound_queue(broker, endpoint=endpoint, stay_seconds=0.1)
    post(broker, queue, 2)
    EndpointCircuit.objects.create(endpoint=endpoint, state="OPEN", resume_at=timezone.now())
    path = tmp_path / "partner"
    killed = child(queue, child_environment, (path, "arrived", 1, "KILL"))
    await_kill(killed, "arrived")
    assert EndpointCircuit.objects.get().state == "HALF_OPEN"
    assert send(queue, FilePartner(path)).ending == "DRAINED"
    assert (EndpointCircuit.objects.get().state, arrived(path)) == ("CLOSED", [0, 0, 1])


def test_a_message_that_kills_the_sender_is_held_and_the_others_go_on(
    broker, child_environment, tmp_path
):
    queue = an_outbound_queue(
        broker, endpoint=an_endpoint(idempotent=True), stay_seconds=0.1, crash_limit=2
    )
    post(broker, queue, 3)
    path = tmp_path / "partner"
    for _ in range(3):
        killed = child(queue, child_environment, (path, "arrived", 1, "KILL"))
        killed.communicate(timeout=60)
        await_free_locks()
    assert child(queue, child_environment, (path, "none", 1, "KILL")).wait(timeout=60) == 0
    row = MessageError.objects.get()
    assert (row.state, row.code, row.offset) == ("HOLD", "PROCESS_CRASH", 0)
