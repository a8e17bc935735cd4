"""Services, systems and handlers that are off, and people who switch while messages are in work."""

import threading
import time

import pytest
from django.db import connections
from django.db.models.functions import Now

from integration.delivery.report import Report
from integration.handlers.registry import Registration, registry
from integration.models import (
    EnterpriseService,
    ErrorAttempt,
    ExternalSystem,
    MessageError,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.flows import drain, effects, ended, held, standing
from tests.support.kafka_world import Kafka
from tests.support.world.handlers import one
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def switch(what: str, *, on: bool) -> None:
    if what == "SERVICE_DISABLED":
        EnterpriseService.objects.filter(interface="OBEY").update(enabled=on)
    else:
        ExternalSystem.objects.filter(name="partner").update(enabled=on)


OTHER = [("sluice-interface", b"OBEY.ALONE")]
OFF = ["SERVICE_DISABLED", "SYSTEM_DISABLED"]


@pytest.mark.parametrize("code", OFF)
def test_a_sequential_queue_waits_at_what_is_off_and_goes_on_when_it_is_on(broker, code):
    queue = a_queue(broker, "sequential", max_retries=0)
    if code == "SERVICE_DISABLED":
        broker.send(queue.topic, [{"n": 0}], headers=OTHER)
    else:
        broker.send(queue.topic, [])
    broker.send(queue.topic, [{"n": 1}, {"n": 2}])
    switch(code, on=False)

    assert [drain(queue).ending for _ in range(3)] == ["WAITING"] * 3

    waits_at = 1 if code == "SERVICE_DISABLED" else 0
    assert standing(queue) == (waits_at, "WAITING", code)
    assert not MessageError.objects.exists()
    assert effects() == list(range(waits_at))
    switch(code, on=True)
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 1, 2][1 - waits_at :]
    assert standing(queue)[1:] == ("RUNNING", "")


@pytest.mark.parametrize("code", OFF)
def test_a_continuous_queue_holds_what_is_off_up_to_its_limit_and_then_stops(broker, code):
    """The threshold for one cause in a row is not meant: it is known why all of them fail."""
    queue = a_queue(broker, max_open_errors=12, failure_threshold=5, batch_size=4)
    switch(code, on=False)
    broker.send(queue.topic, [{"n": n} for n in range(30)])

    assert drain(queue).ending == "BRAKED"

    assert standing(queue) == (12, "BRAKED", "TOO_MANY_OPEN_ERRORS")
    assert held(queue) == dict.fromkeys(range(12), code)
    assert not ErrorAttempt.objects.exclude(code=code).exists()
    assert set(MessageError.objects.values_list("attempts", "spent")) == {(0, 0)}
    assert effects() == []
    # Switched on, released and resumed, as the console does it.
    switch(code, on=True)
    MessageError.objects.update(state="READY")
    QueuePartition.objects.filter(queue=queue).update(state="RUNNING", state_code="")
    drain(queue)
    assert effects() == list(range(30))
    assert set(MessageError.objects.values_list("state", flat=True)) == {"RESOLVED"}
    assert standing(queue) == (30, "RUNNING", "")


def test_what_is_off_is_held_between_neighbours_that_commit(broker):
    queue = a_queue(broker)
    EnterpriseService.objects.filter(interface="OBEY.ALONE").update(enabled=False)
    for n in range(6):
        broker.send(queue.topic, [{"n": n}], headers=OTHER if n % 2 else None)
    drain(queue)
    assert effects() == [0, 2, 4]
    assert held(queue) == dict.fromkeys([1, 3, 5], "SERVICE_DISABLED")
    assert standing(queue) == (6, "RUNNING", "")


@pytest.fixture
def late_handler():
    """Install a handler for LATE after this worker has started; it is gone after the test."""
    EnterpriseService.objects.create(interface="LATE")

    def install() -> None:
        registry.add(Registration("LATE", one, False, False, False, "tests.late"))

    yield install
    registry._by_interface.pop("LATE", None)


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_queue_waits_for_a_handler_that_this_worker_does_not_have(broker, kind, late_handler):
    queue = a_queue(broker, kind, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "ok"}])
    broker.send(queue.topic, [{"n": 2}], headers=[("sluice-interface", b"LATE")])
    broker.send(queue.topic, [{"n": 3}])

    assert [drain(queue).ending for _ in range(2)] == ["WAITING"] * 2

    assert standing(queue) == (2, "WAITING", "HANDLER_MISSING")
    assert not MessageError.objects.exists()
    assert effects() == [0, 1]
    late_handler()
    assert drain(queue).ending == "DRAINED"
    assert effects() == [0, 1, 2, 3]
    assert standing(queue) == (4, "RUNNING", "")


def test_a_retry_whose_service_was_switched_off_meanwhile_spends_nothing(broker):
    queue = a_queue(broker, max_retries=3, retry_delay_seconds=3_600)
    broker.send(queue.topic, [{"n": 0, "do": "until", "until": 2}])
    drain(queue)
    MessageError.objects.update(not_before=Now())
    switch("SERVICE_DISABLED", on=False)
    drain(queue)
    row = MessageError.objects.get(queue=queue)
    assert (row.state, row.code, row.attempts) == ("HOLD", "SERVICE_DISABLED", 1)
    switch("SERVICE_DISABLED", on=True)
    MessageError.objects.update(state="READY")
    drain(queue)
    assert effects() == [0]


@pytest.mark.parametrize("switched", [{"paused": True}, {"enabled": False}])
def test_switching_off_lets_the_batch_finish_and_starts_no_other(broker, switched):
    """The handler waits until the switch is thrown, in the middle of its batch."""
    queue = a_queue(broker, batch_size=10, stay_seconds=30)
    deeds = ["ok"] * 40
    deeds[4] = "sleep"
    values = [{"n": n, "do": do, "seconds": 5} for n, do in enumerate(deeds)]
    broker.send(queue.topic, values)
    reports: list[Report] = []
    thread = threading.Thread(target=lambda: reports.append(run_in_thread(queue.pk)))
    thread.start()
    wait_for_work(queue)
    Queue.objects.filter(pk=queue.pk).update(**switched)
    thread.join(60)

    assert [report.ending for report in reports] == ["STOPPED"]
    reached = standing(queue)[0]
    assert reached in {10, 20}  # whole batches
    assert effects() == list(range(reached))
    assert drain(queue).ending == "STOPPED"
    assert effects() == list(range(reached))
    Queue.objects.filter(pk=queue.pk).update(paused=False, enabled=True, stay_seconds=0.1)
    drain(queue)
    assert effects() == list(range(40))
    assert set(ended(queue).values()) == {"APPLIED"}


def run_in_thread(queue_id: int) -> Report:
    try:
        return run_queue(queue_id)
    finally:
        connections.close_all()


def wait_for_work(queue: Queue) -> None:
    """Until a batch is open: its session idles in a transaction while the handler sleeps."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with connections["default"].cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity a JOIN integration_partitionlease l "
                "ON l.batch_pid = a.pid JOIN integration_queuepartition p "
                "ON p.id = l.partition_id WHERE p.queue_id = %s "
                "AND a.state = 'idle in transaction' "
                "AND a.state_change < clock_timestamp() - interval '200 ms'",
                [queue.pk],
            )
            if cursor.fetchone()[0]:
                assert not Effect.objects.exists()
                return
        time.sleep(0.02)
    raise AssertionError("No batch was ever open.")


@pytest.mark.parametrize("interface", ["OBEY.ALONE", "NOWHERE"])
def test_a_service_that_is_off_says_whether_its_handler_is_missing_too(broker, interface):
    EnterpriseService.objects.update_or_create(interface=interface, defaults={"enabled": False})
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 0}], headers=[("sluice-interface", interface.encode())])
    drain(queue)
    row = MessageError.objects.get(queue=queue)
    assert (row.state, row.code) == ("HOLD", "SERVICE_DISABLED")
    assert ("no handler" in row.text) == (interface == "NOWHERE")
