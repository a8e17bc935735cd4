"""publish(): a channel's message for each of its targets, judged, with ids that stay."""

from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction
from lxml import etree

from integration import envelope
from integration.codec import decode_headers
from integration.envelope.retry_wrapper import unwrap
from integration.handlers import Message, PayloadRefusedError, publish, publish_to
from integration.handlers.channels import UnknownChannelError
from integration.handlers.failures import classify
from integration.handlers.outbound import Outbound, current
from integration.handlers.publishing import publish_document
from integration.models import (
    ChannelTarget,
    ExternalSystem,
    ObjectStructure,
    OutboxRow,
    Queue,
)
from integration.testing import a_message, a_publish_channel, an_outbound_queue, run_handler
from tests.support.channels import a_channel, a_target

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

SCHEMA = {"type": "object", "properties": {"total": {"type": "number", "maximum": 100.5}}}


@pytest.fixture
def inside() -> Iterator[Outbound]:
    """As inside the engine, which makes one of these for each transaction."""
    outbound = Outbound()
    outbound.begin(a_message({}, message_id="m-1"))
    token = current.set(outbound)
    yield outbound
    current.reset(token)


def only_row() -> OutboxRow:
    return OutboxRow.objects.get()


def refusal(channel: str, payload: object, **more: Any) -> str:
    with pytest.raises(PayloadRefusedError) as told:
        publish(channel, payload, **more)
    assert not OutboxRow.objects.exists()
    return told.value.failure_code


# --- who gets it --------------------------------------------------------------------------------


def test_each_target_gets_a_message_of_its_own() -> None:
    a_channel("MXPO", "erp", "wms")
    done = publish("MXPO", {"ponum": "1", "total": Decimal("1.10")}, key="1", headers={"a": "b"})
    rows = OutboxRow.objects.order_by("id")
    assert done.channel == "MXPO"
    assert list(done.ids) == ["erp", "wms"]
    assert [row.message_id for row in rows] == list(done.ids.values())
    assert len(set(done.ids.values())) == 2
    assert [row.topic for row in rows] == ["erp-out", "wms-out"]
    for system, row in zip(done.ids, rows, strict=True):
        sent = envelope.read(bytes(row.value))
        assert isinstance(sent, envelope.Document)
        assert (sent.interface, sent.destination, sent.message_id) == (
            "MXPO",
            system,
            row.message_id,
        )
        assert sent.body == {"ponum": "1", "total": Decimal("1.10")}
        assert bytes(row.key) == b"1"
        assert dict(decode_headers(row.headers)) == {
            "a": b"b",
            "sluice-message-id": row.message_id.encode(),
            "sluice-interface": b"MXPO",
            "sluice-sender": b"sluice",
            "sluice-destination": system.encode(),
        }


def test_into_a_queue_with_a_retry_wrapper_each_message_goes_wrapped() -> None:
    channel = a_channel("MXPO", "erp")
    Queue.objects.filter(targets__channel=channel).update(retry_wrapper=True)
    publish("MXPO", {"ponum": "1", "total": Decimal("1.10")}, key="1")
    wrapped = unwrap(bytes(only_row().value or b""))
    assert wrapped is not None
    count, inner = wrapped
    assert count == 0
    assert b"1.10" in inner


def test_a_target_that_is_off_gets_nothing() -> None:
    channel = a_channel("MXPO", "erp", "wms")
    channel.targets.filter(system__name="erp").update(enabled=False)
    assert list(publish("MXPO", {}).ids) == ["wms"]
    assert only_row().topic == "wms-out"


def test_a_channel_that_is_off_publishes_nothing() -> None:
    a_channel("MXPO", "erp", enabled=False)
    assert publish("MXPO", {}).ids == {}
    assert not OutboxRow.objects.exists()


def test_a_system_or_queue_that_is_off_stops_delivery_and_loses_nothing() -> None:
    a_channel("MXPO", "erp")
    ExternalSystem.objects.update(enabled=False)
    Queue.objects.update(enabled=False, paused=True)
    assert list(publish("MXPO", {}).ids) == ["erp"]
    assert only_row().state == "PENDING"


def test_two_systems_may_share_a_queue() -> None:
    channel = a_channel("MXPO", "erp")
    shared = Queue.objects.get(name="erp-out")
    a_target(channel, "wms", queue=shared)
    assert list(publish("MXPO", {}).ids) == ["erp", "wms"]
    sent = [envelope.read(bytes(row.value)) for row in OutboxRow.objects.order_by("id")]
    assert [one.destination for one in sent if isinstance(one, envelope.Document)] == ["erp", "wms"]


def test_an_unknown_channel_says_what_to_do() -> None:
    with pytest.raises(UnknownChannelError, match="MXPO") as told:
        publish("MXPO", {})
    assert told.value.code == "UNKNOWN_CHANNEL"
    assert "Set it up" in told.value.next_step


# --- transactions -------------------------------------------------------------------------------


def test_a_rolled_back_transaction_publishes_nothing() -> None:
    a_channel("MXPO", "erp", "wms")
    with transaction.atomic():
        publish("MXPO", {})
        transaction.set_rollback(True)
    with suppress(ZeroDivisionError), transaction.atomic():
        publish("MXPO", {"n": 1})
        raise ZeroDivisionError
    assert not OutboxRow.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_all_targets_are_one_of_its_own() -> None:
    a_channel("MXPO", "erp", "wms")
    assert not connection.in_atomic_block
    publish("MXPO", {})
    assert OutboxRow.objects.count() == 2
    assert not connection.in_atomic_block


def test_publishing_asks_the_database_three_times(django_assert_num_queries: Any) -> None:
    """Channel, targets, insert."""
    a_channel("MXPO", "erp", "wms")
    with django_assert_num_queries(3), transaction.atomic(savepoint=False):
        publish("MXPO", {})


# --- formats ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ({"a": Decimal("1.50")}, b'{"a":1.50}'),
        ([1, 2], b"[1,2]"),
        ('{"a": 1}', b'{"a": 1}'),
        (b'{"a": 1}', b'{"a": 1}'),
    ],
)
def test_json_without_envelope_is_sent_as_it_is(payload: Any, value: bytes) -> None:
    a_channel("MXPO", "erp", envelope=False)
    publish("MXPO", payload)
    row = only_row()
    assert bytes(row.value) == value
    assert dict(decode_headers(row.headers))["sluice-destination"] == b"erp"


@pytest.mark.parametrize(
    "payload", [etree.fromstring("<a>\xe4</a>"), "<a>\xe4</a>", "<a>\xe4</a>".encode()]
)
def test_xml_in_any_form_it_may_have(payload: Any) -> None:
    a_channel("MXPO", "erp", format="xml", envelope=False)
    publish("MXPO", payload)
    assert bytes(only_row().value) == "<a>\xe4</a>".encode()


@pytest.mark.parametrize(
    ("form", "payload", "code"),
    [
        ("xml", {"a": 1}, "PAYLOAD_FORMAT"),
        ("xml", '{"a": 1}', "PAYLOAD_FORMAT"),
        ("xml", "<a>", "TRUNCATED_XML"),
        ("json", etree.fromstring("<a/>"), "PAYLOAD_FORMAT"),
        ("json", "<a/>", "PAYLOAD_FORMAT"),
        ("json", '{"a": 1', "TRUNCATED_JSON"),
        ("json", "", "EMPTY_BODY"),
        ("json", {"a": float("nan")}, "PAYLOAD_FORMAT"),
        ("json", {"a": object()}, "PAYLOAD_FORMAT"),
        ("json", None, "NO_KEY"),
    ],
)
def test_what_is_not_of_the_format_is_refused(form: str, payload: Any, code: str) -> None:
    a_channel("MXPO", "erp", format=form)
    assert refusal("MXPO", payload) == code


def test_a_refusal_is_permanent_inside_a_handler() -> None:
    a_channel("MXPO", "erp", format="xml")
    with pytest.raises(PayloadRefusedError) as told:
        publish("MXPO", {})
    failure = classify(told.value)
    assert (failure.kind, failure.code) == ("permanent", "PAYLOAD_FORMAT")
    assert told.value.next_step in failure.text


def test_a_tombstone_has_a_key_and_no_value() -> None:
    a_channel("MXPO", "erp")
    publish("MXPO", None, key="4711")
    assert (only_row().value, bytes(only_row().key)) == (None, b"4711")


# --- keys and structures ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "key_path", "key_paths", "expected"),
    [
        ("given", "$.ponum", ["$.siteid"], b"given"),
        (None, "$.ponum", ["$.siteid"], b"7"),
        (None, "", ["$.siteid", "$.ponum"], b'["N","7"]'),
        (None, "", None, None),
    ],
)
def test_where_the_key_comes_from(
    key: str | None, key_path: str, key_paths: list[str] | None, expected: bytes | None
) -> None:
    structure = key_paths and ObjectStructure.objects.create(name="po", key_paths=key_paths)
    a_channel("MXPO", "erp", key_path=key_path, structure=structure)
    publish("MXPO", {"ponum": 7, "siteid": "N"}, key=key)
    stored = only_row().key
    assert (None if stored is None else bytes(stored)) == expected


def test_a_key_path_of_an_xml_channel() -> None:
    a_channel("MXPO", "erp", format="xml", key_path="/PO/PONUM")
    publish("MXPO", "<PO><PONUM>4711</PONUM></PO>")
    assert bytes(only_row().key) == b"4711"


def test_a_payload_without_its_key_is_refused() -> None:
    a_channel("MXPO", "erp", key_path="$.ponum")
    assert refusal("MXPO", {"PONUM": "1"}) == "NO_KEY"


def test_the_structure_judges_what_is_published() -> None:
    structure = ObjectStructure.objects.create(name="po", key_paths=["$.n"], json_schema=SCHEMA)
    a_channel("MXPO", "erp", structure=structure)
    assert refusal("MXPO", {"n": 1, "total": Decimal("100.51")}) == "SCHEMA_VIOLATION"
    publish("MXPO", {"n": 1, "total": Decimal("100.5")})
    assert bytes(only_row().key) == b"1"


# --- sizes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("wrapped", "size"), [(True, 2_000), (False, 200_000)])
def test_what_the_topic_cannot_take_is_refused(wrapped: bool, size: int) -> None:
    a_channel("MXPO", "erp", envelope=wrapped)
    Queue.objects.update(topic_max_bytes=1_000)
    text = "".join(chr(33 + n * n % 57) + str(n * 7_919 % 10_007) for n in range(size // 5))
    assert refusal("MXPO", {"text": text}) == "PAYLOAD_TOO_LARGE"


def test_what_kafka_packs_small_enough_is_not_refused() -> None:
    a_channel("MXPO", "erp", envelope=False)
    Queue.objects.update(topic_max_bytes=1_000)
    publish("MXPO", {"text": "a" * 5_000})
    assert only_row().state == "PENDING"


def test_nothing_above_what_is_ever_read_is_published() -> None:
    a_channel("MXPO", "erp", envelope=False)
    assert refusal("MXPO", {"text": "a" * (10 * 2**20)}) == "PAYLOAD_TOO_LARGE"


# --- inside a handler ---------------------------------------------------------------------------


def test_inside_a_handler_rows_wait_for_the_engine(inside: Outbound) -> None:
    a_channel("MXPO", "erp", "wms")
    ids = publish("MXPO", {}).ids
    assert [row.message_id for row in inside.rows] == list(ids.values())
    assert not OutboxRow.objects.exists()
    assert {dict(row.headers)["sluice-cause"] for row in inside.rows} == {b"m-1"}


def test_a_target_switched_off_leaves_the_other_ids_as_they_were(inside: Outbound) -> None:
    a_channel("MXPO", "erp", "wms")
    an_outbound_queue("plain")
    first = [publish("MXPO", {}).ids, publish("MXPO", {}).ids]
    beside = publish_to("plain", {})
    ChannelTarget.objects.filter(system__name="erp").update(enabled=False)
    inside.channel.cache_clear()
    inside.begin(a_message({}, message_id="m-1"))
    again = [publish("MXPO", {}).ids, publish("MXPO", {}).ids]
    assert [one["wms"] for one in again] == [one["wms"] for one in first]
    assert publish_to("plain", {}) == beside
    assert len({*first[0].values(), *first[1].values(), beside}) == 5


def test_a_channel_is_looked_up_once_a_transaction(
    inside: Outbound, django_assert_num_queries: Any
) -> None:
    a_channel("MXPO", "erp")
    with django_assert_num_queries(2):
        for _ in range(3):
            publish("MXPO", {})


def test_what_a_handler_rolls_back_itself_is_not_published(inside: Outbound) -> None:
    a_channel("MXPO", "erp", "wms")
    with transaction.atomic():
        kept = publish("MXPO", {}).ids
        with suppress(ZeroDivisionError), transaction.atomic():
            publish("MXPO", {})
            raise ZeroDivisionError
    assert [row.message_id for row in inside.rows] == list(kept.values())


def test_a_handler_that_publishes_is_tested_with_a_channel_of_the_test() -> None:
    def confirm(message: Message) -> None:
        publish("MXRECEIPT", {"n": message.body["n"]})

    missing = run_handler(confirm, {"n": 7}).failure
    assert missing is not None
    assert missing.code == "UNKNOWN_CHANNEL"
    a_publish_channel("MXRECEIPT", "erp", "wms", key_path="$.n")
    published = run_handler(confirm, {"n": 7}).published
    assert [(sent.system, sent.topic, sent.key, sent.body) for sent in published] == [
        ("erp", "erp-out", b"7", {"n": 7}),
        ("wms", "wms-out", b"7", {"n": 7}),
    ]


# --- bytes --------------------------------------------------------------------------------------


def test_a_document_is_published_as_it_came() -> None:
    a_channel("MXPO", "erp", envelope=False, key_path="$.n")
    done = publish_document("MXPO", b'{"n": 1.50}')
    assert (bytes(only_row().value), bytes(only_row().key)) == (b'{"n": 1.50}', b"1.5")
    assert only_row().message_id == done.ids["erp"]


@pytest.mark.parametrize(
    ("body", "code"), [(b"  ", "EMPTY_BODY"), (b"\xff", "NOT_UTF8"), (b"<a/>", "PAYLOAD_FORMAT")]
)
def test_a_document_that_cannot_be_read_is_refused(body: bytes, code: str) -> None:
    a_channel("MXPO", "erp")
    with pytest.raises(PayloadRefusedError) as told:
        publish_document("MXPO", body)
    assert told.value.failure_code == code
