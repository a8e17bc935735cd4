"""Queues that read from a JMS broker: the same runs, failures and repair as from Kafka."""

import json
import struct
from datetime import timedelta

import pytest
from django.utils import timezone
from proton import (
    UNDESCRIBED,
    Array,
    Data,
    Message,
    char,
    decimal32,
    decimal64,
    decimal128,
    int32,
)

from crontasks.health import flow_set_up
from devstack.artemis import STRANGER
from integration.actions import failures
from integration.amqp.errors import JmsInUseError
from integration.amqp.records import arrived
from integration.delivery.jms_flaws import jms_flaw
from integration.delivery.report import RunEnding
from integration.kafka.examination import Verdict
from integration.models import (
    JmsReceipt,
    MessageError,
    MessageTrack,
    Provider,
    Queue,
    QueuePartition,
)
from integration.runs.queues import run_queue
from integration.runs.sources import source_of
from integration.selectors.setup.examination import examined
from integration.values import content_hash
from tests.support.amqp import Broker
from tests.support.jms import a_jms_provider, a_jms_queue, left, put, standing
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def applied() -> list[int]:
    return list(Effect.objects.order_by("id").values_list("n", flat=True))


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_messages_are_applied_in_order_and_accepted(servers, amqp_broker: Broker, kind: str):
    queue = a_jms_queue(amqp_broker, kind, batch_size=10)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(35)])
    report = run_queue(queue.pk)
    assert report.ending is RunEnding.DRAINED, report
    assert applied() == list(range(35))
    assert left(amqp_broker, queue) == []
    assert QueuePartition.objects.get(queue=queue).next_offset == 35
    assert not JmsReceipt.objects.exists()
    assert MessageTrack.objects.filter(queue=queue, message_id="m34", ended="APPLIED").exists()
    put(amqp_broker, queue, [{"n": 35, "do": "ok"}], first=35)
    run_queue(queue.pk)
    assert applied() == list(range(36))


def a_receipt(queue: Queue, message_id: str, days: int) -> None:
    receipt = content_hash(message_id.encode())
    at = timezone.now() - timedelta(days=days)
    JmsReceipt.objects.create(queue=queue, message=receipt, received_at=at)


def test_a_receipt_whose_message_never_comes_again_goes_after_a_day(
    servers, amqp_broker: Broker
) -> None:
    """The broker had accepted those messages; only its answer was lost."""
    queue = a_jms_queue(amqp_broker)
    a_receipt(queue, "m0", days=2)
    a_receipt(queue, "m1", days=2)
    a_receipt(queue, "m2", days=0)
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}])
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    # However old: what comes again is known, and what has just been lost may still come.
    assert applied() == []
    assert left(amqp_broker, queue) == []
    run_queue(queue.pk)
    [kept] = JmsReceipt.objects.values_list("message", flat=True)
    assert bytes(kept) == content_hash(b"m2")
    put(amqp_broker, queue, [{"n": 1, "do": "ok"}], first=1)
    run_queue(queue.pk)
    assert applied() == [1]


def test_a_failure_is_a_row_and_stops_a_sequential_queue_until_it_is_released(
    servers, amqp_broker: Broker
):
    queue = a_jms_queue(amqp_broker)
    bodies = [{"n": 0, "do": "ok"}, {"n": 1, "do": "permanent"}, {"n": 2, "do": "ok"}]
    put(amqp_broker, queue, bodies)
    assert run_queue(queue.pk).ending is RunEnding.BLOCKED
    [failure] = MessageError.objects.all()
    assert (failure.message_id, failure.state, failure.offset) == ("m1", "HOLD", 1)
    # What is in the table is known when it comes again; what stands behind it waits there.
    assert applied() == [0]
    assert run_queue(queue.pk).ending is RunEnding.BLOCKED
    mended = b'{"n": 1, "do": "ok"}'
    version = failures.edit(failure.pk, version=failure.version, actor="anna", payload=mended)
    failures.release(failure.pk, version=version, actor="anna")
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert applied() == [0, 1, 2]
    assert left(amqp_broker, queue) == []
    assert not JmsReceipt.objects.exists()


def test_a_correction_under_the_same_id_does_not_vanish(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0, "do": "permanent"}])
    assert run_queue(queue.pk).ending is RunEnding.BLOCKED
    put(amqp_broker, queue, [{"n": 1, "do": "ok"}])
    failure = MessageError.objects.get()
    failures.delete(failure.pk, version=failure.version, actor="anna", reason="corrected")
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert (applied(), left(amqp_broker, queue)) == ([1], [])
    assert not JmsReceipt.objects.exists()


def test_a_continuous_queue_goes_on_and_tries_again_from_the_row(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, "continuous", stay_seconds=20.0)
    bodies = [{"n": 0, "do": "until", "until": 2}, {"n": 1, "do": "ok"}]
    put(amqp_broker, queue, bodies)
    run_queue(queue.pk, stop=lambda **_: "seen" if len(applied()) == 2 else None)
    assert applied() == [1, 0]
    assert left(amqp_broker, queue) == []
    assert MessageError.objects.get().state == "RESOLVED"


def test_a_message_without_an_id_is_held_and_can_be_released(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, "continuous")
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}], id=None)
    run_queue(queue.pk)
    failure = MessageError.objects.get()
    assert (failure.code, failure.state) == ("JMS_NO_MESSAGE_ID", "HOLD")
    assert left(amqp_broker, queue) == []
    failures.release(failure.pk, version=failure.version, actor="anna")
    run_queue(queue.pk)
    assert applied() == [0]


@pytest.mark.parametrize("decided", ["release", "delete", "park"])
def test_a_message_without_an_id_is_held_once_where_the_order_is_kept(
    servers, amqp_broker: Broker, decided: str
):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}], id=None)
    put(amqp_broker, queue, [{"n": 1, "do": "ok"}], first=1)
    assert run_queue(queue.pk).ending is RunEnding.BLOCKED
    # Its row holds it now: whatever is decided, the broker must not bring it again.
    assert left(amqp_broker, queue) == ["m1"]
    failure = MessageError.objects.get()
    assert (failure.code, failure.state) == ("JMS_NO_MESSAGE_ID", "HOLD")
    decision = getattr(failures, decided)
    decision(failure.pk, version=failure.version, actor="anna", reason="it is there once")
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert applied() == ([0, 1] if decided == "release" else [1])
    assert MessageError.objects.count() == 1
    assert left(amqp_broker, queue) == []


def test_a_second_connection_for_the_same_queue_waits_for_the_first(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}])
    first, _ = source_of(queue)
    assert first.facts() is not None
    try:
        second, _ = source_of(queue)
        with pytest.raises(JmsInUseError):
            second.facts()
        second.close()
        assert run_queue(queue.pk).ending is RunEnding.OUTAGE
        assert standing(queue) == ("OUTAGE", "JMS_IN_USE")
    finally:
        first.close()
    QueuePartition.objects.update(resume_at=timezone.now())
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert applied() == [0]


def test_a_broker_that_is_gone_is_an_outage_and_loses_nothing(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": n, "do": "ok"} for n in range(3)])
    amqp_broker.kill()
    assert run_queue(queue.pk).ending is RunEnding.OUTAGE
    assert standing(queue) == ("OUTAGE", "JMS_UNREACHABLE")
    amqp_broker.server.start()
    QueuePartition.objects.update(resume_at=timezone.now())
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    assert applied() == [0, 1, 2]


def test_a_topic_is_read_by_a_durable_subscription(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker, subscription="sluice")
    # The subscription begins with the first run: what came before is nobody's.
    assert run_queue(queue.pk).ending is RunEnding.DRAINED
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}], to_topic=True)
    run_queue(queue.pk)
    assert applied() == [0]


def test_a_user_without_the_right_is_an_outage_that_says_so(servers, amqp_broker: Broker):
    provider = a_jms_provider(amqp_broker, username=STRANGER)
    queue = a_jms_queue(amqp_broker, provider=provider)
    assert run_queue(queue.pk).ending is RunEnding.OUTAGE
    assert standing(queue) == ("OUTAGE", "JMS_RIGHTS")
    Provider.objects.filter(pk=provider.pk).update(password="wrong")
    QueuePartition.objects.update(resume_at=timezone.now())
    assert run_queue(queue.pk).ending is RunEnding.OUTAGE
    assert standing(queue) == ("OUTAGE", "JMS_REFUSED")


def test_a_test_of_the_connection_says_how_far_it_came(servers, amqp_broker: Broker):
    provider = a_jms_provider(amqp_broker)
    steps = examined(provider)
    assert steps.verdict is Verdict.OK
    assert steps.title == "The broker lets us in"
    assert flow_set_up.reachable(provider) == "The JMS broker jms lets us in."
    provider.password = "wrong"
    [section] = examined(provider).sections
    assert [one.verdict for one in section.findings] == [Verdict.OK, Verdict.REFUSED]
    assert section.findings[-1].title == "Log in"
    provider.security_protocol = Provider.Security.SASL_SSL
    [section] = examined(provider).sections
    assert section.findings[-1].title == "Accept each other's certificates"


@pytest.mark.parametrize(
    ("body", "value", "kind"),
    [
        ('{"n": 1}', b'{"n": 1}', "text"),
        (b"\x00\xff", b"\x00\xff", "bytes"),
        ({"n": 1, "x": None, "raw": b"\x01"}, b'{"n": 1, "x": null, "raw": "AQ=="}', "map"),
        ([1, "a"], b'[1, "a"]', "stream"),
        (None, b"", "message"),
    ],
)
def test_each_kind_of_message_has_a_value_and_says_its_kind(body, value, kind):
    message = Message(id="m", body=body)
    record, receipt = arrived(message.encode(), 7)
    assert (record.offset, record.value) == (7, value)
    assert dict(record.headers)["jms-body"] == kind.encode()
    assert receipt is not None


def test_headers_and_properties_are_kept_with_their_types():
    message = Message(
        id="ID:1",
        correlation_id="c",
        reply_to="answers",
        subject="ORDER",
        priority=7,
        creation_time=1_700_000_000.5,
        group_id="g",
        properties={"text": "a", "yes": True, "n": int32(3), "far": 2**40, "price": 1.5},
        body="{}",
    )
    record, _ = arrived(message.encode(), 0)
    headers = {name: value.decode() for name, value in record.headers}
    assert record.key == b"g"
    assert record.timestamp_ms == 1_700_000_000_500
    expected = {
        "JMSMessageID": "ID:1",
        "sluice-message-id": "ID:1",
        "JMSCorrelationID": "c",
        "JMSReplyTo": "answers",
        "JMSType": "ORDER",
        "JMSPriority": "7",
        "text": "a",
        "yes": "true",
        "n": "3",
        "far": "1099511627776",
        "price": "1.5",
    }
    assert headers | expected == headers
    types = {"yes": "boolean", "n": "int", "far": "long", "price": "double"}
    assert json.loads(headers["jms-types"]) == types


def test_only_a_message_with_a_content_type_has_a_header_for_it():
    plain, typed = Message(id="m0", body="{}"), Message(id="m1", body="{}")
    typed.content_type = "application/json"
    found = [dict(arrived(one.encode(), 0).record.headers) for one in (plain, typed)]
    assert [headers.get("content-type") for headers in found] == [None, b"application/json"]


@pytest.mark.parametrize("data", [b"", b"\x00", b"no AMQP"])
def test_what_is_no_message_is_kept_as_it_is(data):
    record, receipt = arrived(data, 0)
    assert record.value == data
    assert receipt is not None
    assert jms_flaw(record).code == "JMS_NOT_READ"


def nested(levels: int) -> bytes:
    """Lists in a list, as AMQP writes them."""
    body = b"\x45"
    for _ in range(levels):
        body = b"\xd0" + struct.pack(">II", len(body) + 4, 1) + body
    return body


# What stands before a body.
PROPERTIES = bytes(Message(id="m1").encode())


@pytest.mark.parametrize(
    "data",
    [
        bytes(Message(id="m1", body=Array(UNDESCRIBED, Data.CHAR, char("a"))).encode()),
        bytes(Message(id="m1", body=decimal128(bytes(16))).encode()),
        bytes(Message(id="m1", body=[{"price": decimal64(5)}]).encode()),
        bytes(Message(id="m1", body="x", properties={"price": decimal32(5)}).encode()),
        bytes(Message(id="m1", body=[float("nan")]).encode()),
        PROPERTIES + b"\x00\x53\x77" + nested(3_000),
        # A body that breaks off.
        PROPERTIES + b"\x00\x53\x77\xa1\x09x",
        PROPERTIES + b"\x00\x53\x75\xa0\x09x",
        PROPERTIES + b"\x00\x53",
    ],
    ids=[
        "array",
        "decimal",
        "decimal in a map",
        "decimal property",
        "NaN",
        "deep",
        "cut",
        "bytes",
        "word",
    ],
)
def test_what_only_amqp_has_a_word_for_is_kept_under_its_id(data: bytes) -> None:
    record, receipt = arrived(data, 0)
    assert record.value == data
    assert jms_flaw(record).code == "JMS_NOT_READ"
    assert dict(record.headers)["sluice-message-id"] == b"m1"
    assert receipt == arrived(data, 1).receipt
    assert receipt != arrived(bytes(Message(id="m1", body="corrected").encode()), 0).receipt


@pytest.mark.parametrize("end", [b"", b"\x00\x53\x77\x40", b"\x00\x53\x78\xc1\x01\x00"])
def test_a_message_without_a_body_is_one_that_has_been_read(end: bytes) -> None:
    record, _ = arrived(PROPERTIES + end, 0)
    assert (record.value, dict(record.headers)["jms-body"]) == (b"", b"message")
    assert jms_flaw(record) is None


def test_an_unreadable_message_without_an_id_is_not_taken_for_another_one_like_it() -> None:
    data = bytes(Message(body=decimal128(bytes(16)), delivery_count=1).encode())
    record, receipt = arrived(data, 0)
    assert (jms_flaw(record).code, receipt) == ("JMS_NOT_READ", None)


@pytest.mark.parametrize(
    "header",
    [
        b"\x00\x53\x70\x45",
        b"\x00\x53\x70\xc0\x07\x05\x41\x40\x40\x40\x52\x01",
        b"\x00\x53\x70\xd0\x00\x00\x00\x0a\x00\x00\x00\x05\x41\x40\x40\x40\x52\x02",
        b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x70\x45",
        b"\x00\xa3\x10amqp:header:list\x45",
        b"\x00\x53\x70\x45\x00\x53\x71\xc1\x01\x00",
    ],
    ids=["empty", "short", "long", "wide code", "named", "and annotations of the delivery"],
)
def test_what_is_no_message_is_the_same_one_however_often_it_was_delivered(header: bytes) -> None:
    broken = b"\x00\x53\x73\xd0\xff"
    record, receipt = arrived(header + broken, 0)
    assert (record.value, receipt) == (header + broken, arrived(broken, 0).receipt)
    assert receipt != arrived(header + broken + b"\x01", 0).receipt


@pytest.mark.parametrize("data", [b"\x00\x53\x70", b"\x00\x53\x70\xd0\xff", b"\x00\xa3\xff"])
def test_a_header_that_breaks_off_is_kept_as_it_is(data: bytes) -> None:
    record, receipt = arrived(data, 0)
    assert record.value == data
    assert receipt is not None


def test_a_run_that_ends_costs_no_delivery_attempt(servers, amqp_broker: Broker):
    queue = a_jms_queue(amqp_broker)
    put(amqp_broker, queue, [{"n": 0, "do": "ok"}])
    for _ in range(3):
        source, _ = source_of(queue)
        source.attach({0: 0})
        assert source.fetch(10, 5).count == 1
        source.close()
    [message] = amqp_broker.received(queue.topic)
    assert message.delivery_count == 0
