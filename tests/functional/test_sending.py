"""An outbound queue with an endpoint: what is delivered, settled, kept and sent again."""

import threading
import time
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection
from django.utils import timezone

from integration.actions import failures
from integration.actions.errors import StateMismatchError
from integration.delivery.report import RunEnding
from integration.endpoints.port import Later, Refused, Unknown, Unreachable
from integration.models import (
    Delivery,
    Endpoint,
    EndpointCircuit,
    MessageError,
    MessageTrack,
    QueuePartition,
)
from tests.support import partners
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import an_endpoint, numbers, post, send

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

# Its runs end as soon as nothing waits.
an_outbound_queue = partial(partners.an_outbound_queue, stay_seconds=0.0)
DEADLOCKS = """
CREATE SEQUENCE deadlocks;
CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('deadlocks') <= 5 THEN RAISE 'deadlock' USING ERRCODE = 'deadlock_detected'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER deadlock BEFORE INSERT ON integration_messageerror
  FOR EACH ROW EXECUTE FUNCTION deadlock()
"""


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def deadlocks():
    """Five times, the transaction that is to write a failure ends as by a deadlock."""
    with connection.cursor() as cursor:
        cursor.execute(DEADLOCKS)
    yield
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION deadlock() CASCADE; DROP SEQUENCE deadlocks")


def states(queue) -> dict[str, int]:
    found = list(Delivery.objects.filter(queue=queue).values_list("state", flat=True))
    return {state: found.count(state) for state in set(found)}


def place(queue) -> QueuePartition:
    return QueuePartition.objects.get(queue=queue)


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_what_is_delivered_is_settled_with_its_track_and_position(broker, kind):
    queue = an_outbound_queue(broker, kind, concurrency=4)
    post(broker, queue, 30)
    partner = MemoryDeliverer()

    report = send(queue, partner)

    assert report.ending is RunEnding.DRAINED, report
    assert sorted(numbers(partner.shelf.ids)) == list(range(30))
    assert (place(queue).next_offset, states(queue)) == (30, {"DELIVERED": 30})
    tracks = MessageTrack.objects.filter(queue=queue, ended="DELIVERED")
    assert sorted(tracks.values_list("offset", flat=True)) == list(range(30))
    assert partner.is_closed
    if kind == "sequential":
        assert numbers(partner.shelf.ids) == list(range(30))


def test_several_are_sent_at_once_and_one_message_of_a_key_at_a_time(broker):
    queue = an_outbound_queue(broker, "continuous", concurrency=4, ordering="key")
    post(broker, queue, 40, keys=5)
    at_once, most, keys, clashes = 0, 0, set(), []
    guard = threading.Lock()

    def slow(message):
        nonlocal at_once, most
        with guard:
            at_once += 1
            most = max(most, at_once)
            clashes.extend({message.key} & keys)
            keys.add(message.key)
        time.sleep(0.01)
        with guard:
            at_once -= 1
            keys.discard(message.key)

    partner = MemoryDeliverer(script=slow)
    send(queue, partner)
    assert (most, clashes) == (4, [])
    for key in range(5):
        mine = [n for n in numbers([p.message_id for p in partner.shelf.messages]) if n % 5 == key]
        assert mine == sorted(mine)
    assert place(queue).next_offset == 40


@pytest.mark.parametrize("at_once", [1, 5])
def test_a_sequential_queue_stops_at_a_refusal_until_a_person_decides(broker, at_once):
    queue = an_outbound_queue(broker)
    post(broker, queue, 5)
    partner = MemoryDeliverer(
        script=lambda p: (
            Refused(code="BAD", text="No.", status=400) if p.message_id == "m2" else None
        ),
        at_once=at_once,
    )
    assert send(queue, partner).ending is RunEnding.BLOCKED
    row = MessageError.objects.get()
    assert (row.state, row.code, row.carrier, place(queue).next_offset) == ("HOLD", "BAD", "row", 2)
    assert states(queue) == {"DELIVERED": 2, "FAILED": 1}

    partner.script = lambda _: None
    failures.release(row.pk, version=row.version, actor="ann")
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert numbers(partner.shelf.ids) == [0, 1, 2, 3, 4]
    row.refresh_from_db()
    assert (row.state, row.ended, place(queue).next_offset) == ("RESOLVED", "DELIVERED", 5)


def test_a_failure_that_passes_spends_retries_and_is_sent_from_its_row(broker):
    queue = an_outbound_queue(broker, max_retries=2)
    post(broker, queue, 3)
    tries = []

    def script(message):
        tries.append((message.message_id, message.attempt))
        busy = message.message_id == "m1" and message.attempt < 3
        return Later(status=500, text="Busy.") if busy else None

    partner = MemoryDeliverer(script=script)
    for _ in range(6):
        send(queue, partner)
    assert tries == [("m0", 1), ("m1", 1), ("m1", 2), ("m1", 3), ("m2", 1)]
    assert numbers(partner.shelf.ids) == [0, 1, 2]
    assert MessageError.objects.get().state == "RESOLVED"


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_an_endpoint_that_is_down_costs_no_retry_and_writes_no_failure(broker, kind):
    queue = an_outbound_queue(broker, kind, concurrency=4)
    post(broker, queue, 10)
    down = True
    partner = MemoryDeliverer(script=lambda _: Unreachable(text="Refused.") if down else None)

    assert send(queue, partner).ending is RunEnding.OUTAGE
    stood = place(queue)
    assert (stood.state, stood.state_code, stood.next_offset) == ("OUTAGE", "ENDPOINT_DOWN", 0)
    assert stood.resume_at is not None
    calls = partner.calls
    # However long the machine takes to come here.
    EndpointCircuit.objects.update(resume_at=timezone.now() + timedelta(hours=1))
    assert send(queue, partner).ending is RunEnding.OUTAGE
    assert partner.calls == calls, "the circuit was open and yet it was called"

    EndpointCircuit.objects.update(resume_at=timezone.now())
    QueuePartition.objects.update(resume_at=timezone.now())
    assert send(queue, partner).ending is RunEnding.OUTAGE
    assert partner.calls == calls + 1, "one probe, no more"
    down = False
    EndpointCircuit.objects.update(resume_at=timezone.now())
    QueuePartition.objects.update(resume_at=timezone.now())
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert sorted(numbers(partner.shelf.ids)) == list(range(10))
    assert not MessageError.objects.exists()
    assert EndpointCircuit.objects.get().state == "CLOSED"
    assert (place(queue).state, place(queue).next_offset) == ("RUNNING", 10)


@pytest.mark.usefixtures("deadlocks")
def test_a_deadlock_at_the_commit_loses_none_of_the_answers(broker):
    queue = an_outbound_queue(broker, "continuous", concurrency=4)
    post(broker, queue, 8)
    called = []

    def script(message):
        called.append(message.message_id)
        return Refused(text="No.") if message.message_id == "m1" else None

    assert send(queue, MemoryDeliverer(script=script)).ending is RunEnding.DRAINED
    assert sorted(numbers(called)) == list(range(8))
    assert (states(queue), place(queue).next_offset) == ({"DELIVERED": 7, "FAILED": 1}, 8)
    assert MessageError.objects.get().code == "REFUSED"


def test_a_call_without_an_answer_is_held_and_a_person_says_that_it_arrived(broker):
    queue = an_outbound_queue(broker)
    post(broker, queue, 3)
    partner = MemoryDeliverer(
        script=lambda p: Unknown(text="Timed out.") if p.message_id == "m1" else None
    )
    assert send(queue, partner).ending is RunEnding.BLOCKED
    row = MessageError.objects.get()
    assert (row.state, row.code) == ("HOLD", "DELIVERY_UNKNOWN")
    assert states(queue) == {"DELIVERED": 1, "UNKNOWN": 1}

    failures.arrived(row.pk, version=row.version, actor="ann", reason="Bob sees it.")
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert (numbers(partner.shelf.ids), states(queue)) == ([0, 2], {"DELIVERED": 3})
    row.refresh_from_db()
    assert (row.state, row.ended) == ("RESOLVED", "DELIVERED")
    assert Delivery.objects.get(message_id="m1").text == "ann: Bob sees it."


def test_a_call_without_an_answer_is_sent_again_where_repeats_are_dropped(broker):
    queue = an_outbound_queue(broker, endpoint=an_endpoint(idempotent=True))
    post(broker, queue, 3)
    asked = []

    def script(message):
        asked.append(message.message_id)
        return Unknown(text="Timed out.") if asked == ["m0", "m1"] else None

    partner = MemoryDeliverer(script=script)
    send(queue, partner)
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert asked == ["m0", "m1", "m1", "m2"]
    assert "UNKNOWN" not in states(queue)


def test_later_messages_of_a_key_wait_behind_its_failure_in_order(broker):
    queue = an_outbound_queue(broker, "continuous", concurrency=4, ordering="key")
    post(broker, queue, 12, keys=3)
    bad = {"m1"}
    partner = MemoryDeliverer(script=lambda p: Refused(text="No.") if p.message_id in bad else None)
    send(queue, partner)
    assert sorted(numbers(partner.shelf.ids)) == [0, 2, 3, 5, 6, 8, 9, 11]
    rows = list(MessageError.objects.order_by("offset").values_list("offset", "state", "code"))
    parked = [(at, "PARKED", "PARKED") for at in (4, 7, 10)]
    assert rows == [(1, "HOLD", "REFUSED"), *parked]
    waiting = MessageError.objects.filter(code="PARKED")
    assert set(waiting.values_list("attempts", "retry_no", "spent")) == {(0, 0, 0)}
    assert place(queue).next_offset == 12

    send(queue, partner)
    assert waiting.count() == 3, "they wait as long as the one before them is open"
    bad.clear()
    row = MessageError.objects.get(offset=1)
    failures.release(row.pk, version=row.version, actor="ann", late=True)
    send(queue, partner)
    got = [n for n in numbers(partner.shelf.ids) if n % 3 == 1]
    assert got == [1, 4, 7, 10]
    assert not MessageError.objects.exclude(state="RESOLVED").exists()


def test_five_messages_in_a_row_that_it_does_not_take_now_open_the_circuit(broker):
    queue = an_outbound_queue(
        broker, "continuous", endpoint=an_endpoint(open_after=3), retry_delay_seconds=60
    )
    post(broker, queue, 10)
    partner = MemoryDeliverer(script=lambda _: Later(status=500, text="Broken."))
    assert send(queue, partner).ending is RunEnding.OUTAGE
    assert (partner.calls, MessageError.objects.count()) == (3, 3)
    assert EndpointCircuit.objects.get().state == "OPEN"
    EndpointCircuit.objects.update(resume_at=timezone.now())
    QueuePartition.objects.update(resume_at=timezone.now())
    send(queue, partner)
    assert (partner.calls, MessageError.objects.count()) == (4, 3), "a probe spends nothing"


def test_a_message_at_which_the_partner_fails_does_not_shut_the_endpoint_for_the_others(broker):
    queue = an_outbound_queue(broker, "continuous", retry_delay_seconds=600)
    post(broker, queue, 4)
    down = Unreachable(code="HTTP_UNAVAILABLE", status=502, may_be_the_message=True)
    partner = MemoryDeliverer(script=lambda p: down if p.message_id == "m0" else None)
    for _ in range(10):
        send(queue, partner)
        EndpointCircuit.objects.update(resume_at=timezone.now())
        QueuePartition.objects.update(resume_at=timezone.now())
    row = MessageError.objects.get()
    assert (row.message_id, row.state, row.code) == ("m0", "RETRY", "HTTP_UNAVAILABLE")
    assert sorted(numbers(partner.shelf.ids)) == [1, 2, 3]
    assert (EndpointCircuit.objects.get().state, place(queue).next_offset) == ("CLOSED", 4)


def test_a_sequential_queue_waits_for_a_gateway_and_writes_no_failure(broker):
    queue = an_outbound_queue(broker, max_retries=0)
    post(broker, queue, 2)
    down = Unreachable(code="HTTP_UNAVAILABLE", status=502, may_be_the_message=True)
    partner = MemoryDeliverer(script=lambda _: down)
    for _ in range(10):
        assert send(queue, partner).ending is RunEnding.OUTAGE
        EndpointCircuit.objects.update(resume_at=timezone.now())
        QueuePartition.objects.update(resume_at=timezone.now())
    assert partner.calls == 10
    partner.script = lambda _: None
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert (numbers(partner.shelf.ids), MessageError.objects.count()) == ([0, 1], 0)


@pytest.mark.parametrize(
    ("change", "ending", "code"),
    [
        ({"enabled": False}, RunEnding.WAITING, "ENDPOINT_DISABLED"),
        (
            {"paused_until": timezone.now() + timezone.timedelta(days=1)},
            RunEnding.OUTAGE,
            "ENDPOINT_PAUSED",
        ),
    ],
)
def test_an_endpoint_switched_off_or_paused_stops_the_queue_without_failures(
    broker, change, ending, code
):
    queue = an_outbound_queue(broker, "continuous")
    post(broker, queue, 3)
    Endpoint.objects.update(**change)
    partner = MemoryDeliverer()
    assert send(queue, partner).ending is ending
    assert (place(queue).state_code, partner.calls) == (code, 0)
    assert not MessageError.objects.exists()
    Endpoint.objects.update(enabled=True, paused_until=None)
    QueuePartition.objects.update(resume_at=timezone.now())
    assert send(queue, partner).ending is RunEnding.DRAINED
    assert numbers(partner.shelf.ids) == [0, 1, 2]


def test_a_row_that_is_in_flight_cannot_be_moved_by_a_person(broker):
    queue = an_outbound_queue(broker, "continuous")
    post(broker, queue, 1)
    partner = MemoryDeliverer(script=lambda _: Refused(text="No."))
    send(queue, partner)
    row = MessageError.objects.get()
    failures.release(row.pk, version=row.version, actor="ann", late=True)
    told = []

    def meanwhile(_):
        # Another thread of this process: what a person does while the call is under way.
        try:
            now = MessageError.objects.get()
            told.append(now.state)
            failures.hold(now.pk, version=now.version, actor="bob")
        except StateMismatchError as e:
            told.append(type(e).__name__)
        finally:
            connection.close()

    partner.script = meanwhile
    send(queue, partner)
    assert told == ["PROCESSING", "StateMismatchError"]
    assert MessageError.objects.get().state == "RESOLVED"
    assert numbers(partner.shelf.ids) == [0]


@pytest.mark.parametrize(
    ("kind", "fields", "at_once"),
    [("sequential", {}, 1), ("continuous", {}, 10), ("continuous", {"ordering": "key"}, 500)],
)
def test_a_rate_limit_is_kept_and_a_stop_is_honoured_within_a_second(broker, kind, fields, at_once):
    queue = an_outbound_queue(broker, kind, endpoint=an_endpoint(rate_per_second=20), **fields)
    post(broker, queue, 1_000, keys=200 if fields else 0)
    called: list[float] = []
    partner = MemoryDeliverer(script=lambda _: called.append(time.monotonic()), at_once=at_once)
    began = time.monotonic()

    def stop(**_):
        # From the first call on: to begin takes a busy machine its time.
        return "enough" if called and time.monotonic() - called[0] > 1.5 else None

    report = send(queue, partner, stop=stop)
    over = time.monotonic()
    assert report.ending is RunEnding.STOPPED
    # All of it would take 50 s.
    assert over - called[0] < 15
    assert 15 <= len(partner.shelf.messages) <= 20 * (over - began) + 3 + min(at_once, 20)
    sent = numbers(partner.shelf.ids)
    assert sorted(sent) == list(range(len(sent)))
    assert states(queue) == {"DELIVERED": len(partner.shelf.messages)}
