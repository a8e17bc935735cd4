"""Queues that forward: each message becomes one record of another topic, in the same commit."""

import json
import time
import uuid
from typing import Any

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.utils import timezone

from crontasks.health.flow_out import delivered
from integration.actions import endpoint_switches, failures
from integration.actions.configuration import Author
from integration.codec import decode_headers
from integration.delivery.report import RunEnding
from integration.endpoints.port import Later, OutboundMessage
from integration.endpoints.registry import endpoint_function
from integration.handlers import Applied, PermanentError
from integration.models import (
    Delivery,
    Endpoint,
    ExternalSystem,
    MessageError,
    MessageTrack,
    OutboxRow,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.runs.relay import run_relay
from tests.support.kafka_world import Kafka
from tests.support.memory.endpoint import MemoryDeliverer
from tests.support.partners import a_call, an_endpoint, an_outbound_queue, post, send

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
# A record older than its topic keeps would soon be gone.
EARLIER = int(time.time() * 1_000) - 3_600_000
BINARY = b"\x00\xff not JSON"


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_forward(broker: Kafka, target: str, kind: str = "continuous", **fields: Any) -> Queue:
    """A queue that forwards to this topic; `properties` are those of its endpoint."""
    stored = {"provider": "main", "topic": target, **fields.pop("properties", {})}
    endpoint = an_endpoint(endpoint_type="kafka", properties=stored)
    return an_outbound_queue(broker, kind, endpoint=endpoint, **({"stay_seconds": 0.0} | fields))


def relayed(queue: Queue) -> None:
    """Let the relay write everything that is due."""
    run_relay(
        queue.provider_id, stop=lambda: not OutboxRow.objects.filter(state="PENDING").exists()
    )


def values(rows: Any = None) -> list[Any]:
    found = OutboxRow.objects.order_by("id") if rows is None else rows
    return [None if row.value is None else json.loads(bytes(row.value)) for row in found]


def test_any_record_goes_on_as_it_is_with_key_headers_and_timestamp(broker):
    target = broker.topic(partitions=4)
    queue = a_forward(broker, target, properties={"keep_timestamp": True})
    sent = [(b"k%d" % n, b'{"n":%d}' % n, EARLIER + n) for n in range(20)]
    sent += [(b"k1", BINARY, EARLIER + 100), (b"k2", None, EARLIER + 101)]
    headers = [("tenant", b"north"), ("empty", None), ("sluice-message-id", b"m1")]
    for key, value, at in sent:
        broker.send(queue.topic, [value], key=key, timestamp=at, headers=headers)
    report = run_queue(queue.pk)
    assert report.ending is RunEnding.DRAINED, report
    assert not MessageError.objects.exists()
    assert not Delivery.objects.exists()
    assert QueuePartition.objects.get(queue=queue).next_offset == len(sent)
    ends = MessageTrack.objects.filter(queue=queue).values_list("ended", flat=True)
    assert list(ends) == ["DELIVERED"] * len(sent)
    relayed(queue)
    read = broker.read_all(target, range(4))
    told = {(one.key(), one.value(), one.timestamp()[1]) for one in read}
    assert (len(read), told) == (len(sent), set(sent))
    assert dict(read[0].headers()) == {
        "tenant": b"north",
        "empty": None,
        "sluice-message-id": b"m1",
        "sluice-forwards": f"{settings.SLUICE_DEPLOYMENT}/{queue.name}".encode(),
    }
    places = {(one.key(), one.partition()) for one in read}
    assert len(places) == 20, "one partition for each key"


def test_without_headers_and_timestamp_the_way_and_the_id_stay(broker):
    made = {"keep_headers": False, "key_from": "none"}
    queue = a_forward(broker, "there", properties=made)
    broker.send(
        queue.topic, [{"n": 1}], key=b"k", timestamp=EARLIER, headers=[("tenant", b"north")]
    )
    run_queue(queue.pk)
    row = OutboxRow.objects.get()
    place = f"main~{queue.topic}~0~0".encode()
    assert dict(decode_headers(row.headers)) == {
        "sluice-message-id": place,
        "sluice-forwards": f"{settings.SLUICE_DEPLOYMENT}/{queue.name}".encode(),
    }
    assert (row.key, row.timestamp_ms) == (None, None)


def test_fields_make_a_document_and_a_key(broker):
    fields = {"number": "{$.order.number}", "lines": "{$.order.lines}", "none": "{$.x}"}
    made = {"content": "fields", "fields": fields, "key_from": "template", "key": "{$.order.site}"}
    queue = a_forward(broker, "there", properties=made)
    order = {"number": "P-1", "lines": [1, 2], "site": "NORTH"}
    wrapped = {"order": order, "more": 1}
    headers = [("jms-body", b"map"), ("jms-body-types", b'{"number": "char"}')]
    sent = [wrapped, {"order": {"number": "P-2"}}, None]
    broker.send(queue.topic, sent, key=b"old", headers=headers)
    run_queue(queue.pk)
    kept = dict(decode_headers(OutboxRow.objects.get().headers))
    assert (kept["jms-body"], "jms-body-types" in kept) == (b"map", False), "of another content"
    assert values() == [{"number": "P-1", "lines": [1, 2], "none": None}]
    assert bytes(OutboxRow.objects.get().key or b"") == b"NORTH"
    held = MessageError.objects.order_by("offset").values_list("code", "state")
    assert list(held) == [("TEMPLATE_FIELD_MISSING", "HOLD")] * 2

    row = MessageError.objects.get(offset=1)
    fixed = b'{"order": {"number": "P-2", "site": "SOUTH"}}'
    failures.edit(row.pk, version=row.version, actor="ann", payload=fixed)
    failures.release(row.pk, version=row.version + 1, actor="ann")
    run_queue(queue.pk)
    assert values()[1] == {"number": "P-2", "lines": None, "none": None}
    row.refresh_from_db()
    assert (row.state, row.ended) == ("RESOLVED", "DELIVERED")


@endpoint_function("tests.forwarded")
def forwarded(message: OutboundMessage) -> object:
    """Forwards as the message says, and writes to the database before."""
    told = json.loads(message.body)
    ExternalSystem.objects.create(name=f"s{told['n']}")
    match told.get("do"):
        case "drop":
            return Applied()
        case "raise":
            raise PermanentError("Not this one.", code="NOT_THIS")
        case "nothing":
            return None
    return {"n": told["n"], "by": message.message_id}


def test_a_function_writes_in_the_same_transaction_and_decides(broker):
    made = {"content": "function", "function": "tests.forwarded"}
    queue = a_forward(broker, "there", properties=made)
    asked = [{"n": 0}, {"n": 1, "do": "drop"}, {"n": 2, "do": "raise"}, {"n": 3, "do": "nothing"}]
    broker.send(queue.topic, [*asked, {"n": 4}], key=b"k")
    run_queue(queue.pk)
    assert [one["n"] for one in values()] == [0, 4]
    names = ExternalSystem.objects.filter(name__startswith="s").values_list("name", flat=True)
    assert sorted(names) == ["s0", "s1", "s4"]
    held = MessageError.objects.order_by("offset").values_list("offset", "code")
    assert list(held) == [(2, "NOT_THIS"), (3, "FUNCTION_ANSWER")]


def test_a_sequential_one_stops_at_a_failure_and_keeps_its_order(broker):
    made = {"key_from": "template", "key": "{$.k}"}
    queue = a_forward(broker, "there", "sequential", properties=made)
    broker.send(queue.topic, [{"k": "a"}, {"n": 1}, {"k": "c"}])
    assert run_queue(queue.pk).ending is RunEnding.BLOCKED
    assert values() == [{"k": "a"}]
    row = MessageError.objects.get()
    failures.delete(row.pk, version=row.version, actor="ann", reason="not needed")
    run_queue(queue.pk)
    assert values() == [{"k": "a"}, {"k": "c"}]
    assert set(OutboxRow.objects.values_list("strict_queue", flat=True)) == {queue.pk}


def test_switched_off_or_unusable_it_waits_and_spends_nothing(broker):
    queue = a_forward(broker, "there")
    broker.send(queue.topic, [{"n": 1}])
    endpoint, author = queue.endpoint, Author("ann", "maintenance")
    endpoint_switches.switch(endpoint.pk, author, to_on=False)
    assert run_queue(queue.pk).ending is RunEnding.WAITING
    assert QueuePartition.objects.get().state_code == "ENDPOINT_DISABLED"
    endpoint_switches.switch(endpoint.pk, author, to_on=True)
    Endpoint.objects.update(properties={"provider": "nobody", "topic": "there"})
    assert run_queue(queue.pk).ending is RunEnding.WAITING
    place = QueuePartition.objects.get()
    assert (place.state_code, place.next_offset) == ("ENDPOINT_UNUSABLE", 0)
    assert "no Kafka cluster nobody" in delivered(Queue.objects.get(pk=queue.pk)).why
    Endpoint.objects.update(properties={"provider": "main", "topic": "there"})
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert values() == [{"n": 1}]
    assert not MessageError.objects.exists()
    assert "written to there of main" in str(delivered(Queue.objects.get(pk=queue.pk)))


class TestCircles:
    def test_one_is_refused_where_it_can_be_seen(self, broker) -> None:
        first, second = broker.topic(), broker.topic()
        there = a_forward(broker, second, topic=first)
        for topic, target in ((second, first), (f"t-{uuid.uuid4().hex}", None)):
            stored = {"provider": "main", "topic": target or topic}
            back = an_endpoint(endpoint_type="kafka", properties=stored)
            queue = Queue(
                name=f"q-{uuid.uuid4().hex[:8]}",
                provider=there.provider,
                topic=topic,
                kind="continuous",
                direction="outbound",
                endpoint=back,
                start_from="beginning",
            )
            with pytest.raises(ValidationError) as refused:
                queue.clean()
            assert list(refused.value.error_dict) == ["endpoint"]
        there.endpoint.properties = {"provider": "main", "topic": first}
        with pytest.raises(ValidationError):
            there.endpoint.clean()
        there.endpoint.properties = {"provider": "main", "topic": "elsewhere"}
        there.endpoint.clean()

    def test_one_that_nobody_saw_ends_at_its_first_turn(self, broker) -> None:
        first, second = broker.topic(), broker.topic()
        there, back = a_forward(broker, second, topic=first), a_forward(broker, first, topic=second)
        broker.send(first, [{"n": 1}, {"n": 2}], key=b"k")
        for queue, target in ((there, second), (back, first)):
            run_queue(queue.pk)
            relayed(queue)
            broker.await_decided(target)
        run_queue(there.pk)
        held = MessageError.objects.values_list("queue", "code", "state")
        assert list(held) == [(there.pk, "FORWARD_LOOP", "HOLD")] * 2
        assert not OutboxRow.objects.filter(state="PENDING").exists()
        assert len(broker.read_all(second)) == 2

    def test_a_way_that_is_too_long_ends(self, broker) -> None:
        queue = a_forward(broker, "there")
        trail = ",".join(f"other/{n}" for n in range(16)).encode()
        broker.send(queue.topic, [{"n": 1}], headers=[("sluice-forwards", trail)])
        run_queue(queue.pk)
        assert MessageError.objects.get().code == "FORWARD_LOOP"
        assert not OutboxRow.objects.exists()


def test_what_another_endpoint_took_beyond_the_position_is_not_forwarded(broker):
    queue = a_forward(broker, "there")
    post(broker, queue, 3)
    place = QueuePartition.objects.get(queue=queue)
    Delivery.objects.create(
        queue=queue,
        endpoint=queue.endpoint,
        topic_uuid=place.topic_uuid,
        partition=0,
        offset=1,
        message_id="m1",
        epoch=0,
        state="DELIVERED",
        started_at=timezone.now(),
        ended_at=timezone.now(),
    )
    run_queue(queue.pk)
    assert [one["n"] for one in values()] == [0, 2]
    assert QueuePartition.objects.get(queue=queue).next_offset == 3


def test_a_queue_that_begins_to_forward_in_the_middle_sends_each_message_one_way(broker):
    queue = an_outbound_queue(broker, stay_seconds=0.0)
    post(broker, queue, 6)
    stored = {"provider": "main", "topic": "there"}
    topic = an_endpoint(endpoint_type="kafka", properties=stored)

    def switching(message: OutboundMessage) -> None:
        if message.message_id == "m0":
            Queue.objects.filter(pk=queue.pk).update(endpoint=topic, changed_at=timezone.now())
            connection.close()
            time.sleep(1.1)

    partner = MemoryDeliverer(script=switching)
    assert send(queue, partner).ending is RunEnding.DRAINED
    written = OutboxRow.objects.order_by("id").values_list("message_id", flat=True)
    assert [*partner.shelf.ids, *written] == [f"m{n}" for n in range(6)]
    assert written
    assert not MessageError.objects.exists()


def test_nothing_names_another_endpoint_beside_a_forward(broker):
    queue = a_forward(broker, "there")
    target = queue.targets.model(system=queue.system, queue=queue, endpoint=an_endpoint())
    with pytest.raises(ValidationError) as refused:
        target.clean()
    assert "endpoint" in refused.value.error_dict
    target.endpoint = queue.endpoint
    with pytest.raises(ValidationError):
        target.clean()


def may_have(queue: Queue, offset: int) -> Delivery:
    """The worker died in this call, when the queue had an endpoint that drops repeats."""
    here = {"topic_uuid": QueuePartition.objects.get(queue=queue).topic_uuid, "epoch": 0}
    former = an_endpoint(idempotent=True)
    return a_call(queue, offset, endpoint=former, state="SENDING", **here)


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_what_the_endpoint_before_may_have_is_held_and_the_others_are_forwarded(broker, kind):
    queue = a_forward(broker, "there", kind, max_retries=0)
    post(broker, queue, 4)
    call = may_have(queue, 1)
    others = [{"n": 0}] if kind == "sequential" else [{"n": 0}, {"n": 2}, {"n": 3}]
    for _ in range(2):
        run_queue(queue.pk)
        assert values() == others
    row = MessageError.objects.get()
    held = (row.offset, row.message_id, row.state, row.code)
    assert held == (1, "m1", "HOLD", "DELIVERY_UNKNOWN")
    call.refresh_from_db()
    assert call.state == "UNKNOWN"
    failures.arrived(row.pk, version=row.version, actor="ann", reason="It is there.")
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert values() == [{"n": 0}, {"n": 2}, {"n": 3}]
    assert QueuePartition.objects.get(queue=queue).next_offset == 4
    call.refresh_from_db()
    assert call.state == "DELIVERED"


def test_what_the_endpoint_before_may_have_is_forwarded_once_a_person_releases_it(broker):
    queue = a_forward(broker, "there")
    post(broker, queue, 2)
    may_have(queue, 0)
    run_queue(queue.pk)
    row = MessageError.objects.get(state="HOLD")
    failures.release(row.pk, version=row.version, actor="ann", late=True)
    run_queue(queue.pk)
    assert values() == [{"n": 1}, {"n": 0}]
    assert MessageError.objects.get().state == "RESOLVED"


def test_a_failure_that_the_endpoint_before_may_have_is_held(broker):
    queue = a_forward(broker, "there", retry_delay_seconds=600)
    forwards = queue.endpoint
    Queue.objects.update(endpoint=an_endpoint(idempotent=True))
    post(broker, queue, 1)
    send(queue, MemoryDeliverer(script=lambda _: Later(text="Busy.")))
    row = MessageError.objects.get(state="RETRY")
    # Its worker died while it was called from its row.
    MessageError.objects.update(state="PROCESSING", epoch=0)
    Delivery.objects.update(state="SENDING", epoch=0, error=row.pk, ended_at=None)
    Queue.objects.update(endpoint=forwards)
    run_queue(queue.pk)
    row.refresh_from_db()
    assert (row.state, row.code, values()) == ("HOLD", "DELIVERY_UNKNOWN", [])
    assert Delivery.objects.get().state == "UNKNOWN"
