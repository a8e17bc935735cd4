"""publish_to(): in the outbox with its cause or not at all, under an id that repetitions share."""

import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from django.db import connections, transaction
from lxml import etree

from integration import envelope
from integration.codec import decode_headers
from integration.handlers import Message, PermanentError, caused_by, inbound, publish_to
from integration.handlers.channels import UnknownQueueError
from integration.handlers.outbound import Outbound, current
from integration.handlers.registry import HandlerConflictError, Registry, registry
from integration.models import (
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    OutboxRow,
    Provider,
    Queue,
)
from integration.testing import NoHandlerError, a_message, an_outbound_queue, run_handler
from sample.models import Asset, MeterReading

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def outbound_queue() -> Queue:
    return a_queue("orders-out", Queue.Kind.CONTINUOUS)


def a_queue(name: str, kind: str) -> Queue:
    provider, _ = Provider.objects.get_or_create(name="main", bootstrap_servers="127.0.0.1:1")
    system, _ = ExternalSystem.objects.get_or_create(name="erp")
    return Queue.objects.create(
        name=name,
        provider=provider,
        topic=f"erp.{name}",
        direction=Queue.Direction.OUTBOUND,
        kind=kind,
        system=system,
        start_from=Queue.StartFrom.END,
    )


@pytest.fixture
def inside() -> Iterator[Outbound]:
    """As inside the engine, which makes one of these for each transaction."""
    outbound = Outbound()
    outbound.begin(a_message({}, message_id="m-1"))
    token = current.set(outbound)
    yield outbound
    current.reset(token)


# --- outside a handler --------------------------------------------------------------------------


def test_outside_a_handler_the_row_is_written_at_once(outbound_queue: Queue) -> None:
    message_id = publish_to(
        "orders-out", {"total": Decimal("1.10")}, key="4711", interface="MXPO", headers={"a": "1"}
    )
    row = OutboxRow.objects.get()
    assert (row.topic, row.message_id, bytes(row.key)) == ("erp.orders-out", message_id, b"4711")
    assert (row.kind, row.state, row.strict_queue) == ("MESSAGE", "PENDING", None)
    assert dict(decode_headers(row.headers)) == {
        "a": b"1",
        "sluice-message-id": message_id.encode(),
        "sluice-interface": b"MXPO",
        "sluice-sender": b"sluice",
        "sluice-destination": b"erp",
    }
    sent = envelope.read(bytes(row.value))
    assert isinstance(sent, envelope.Document)
    assert (sent.interface, sent.sender, sent.destination) == ("MXPO", "sluice", "erp")
    assert (sent.message_id, sent.body) == (message_id, {"total": Decimal("1.10")})
    assert json.loads(bytes(row.value))["destjndiname"] == "erp.orders-out"


def test_a_rolled_back_transaction_sends_nothing(outbound_queue: Queue) -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        publish_to("orders-out", {"n": 1 / 0})
    with transaction.atomic():
        publish_to("orders-out", {})
        transaction.set_rollback(True)
    assert not OutboxRow.objects.exists()


def test_a_strict_queue_keeps_its_order() -> None:
    queue = a_queue("strict-out", Queue.Kind.SEQUENTIAL)
    publish_to("strict-out", {})
    assert OutboxRow.objects.get().strict_queue == queue.pk


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        ({"a": Decimal("1.50")}, b'{"a":1.50}'),
        ('{"a": 1}', b'{"a": 1}'),
        (b"<a/>", b"<a/>"),
        (etree.fromstring("<a><b>\xe4</b></a>"), "<a><b>ä</b></a>".encode()),
        (None, None),
    ],
)
def test_a_bare_payload_is_sent_as_it_is(
    outbound_queue: Queue, payload: Any, value: bytes | None
) -> None:
    publish_to("orders-out", payload, envelope=False, key=b"k")
    stored = OutboxRow.objects.get().value
    assert (None if stored is None else bytes(stored)) == value


def test_an_xml_payload_goes_into_the_envelope_as_text(outbound_queue: Queue) -> None:
    publish_to("orders-out", etree.fromstring("<a>7</a>"))
    written = json.loads(bytes(OutboxRow.objects.get().value))
    assert (written["payload"], written["mimetype"]) == ("<a>7</a>", "application/xml")


def test_our_headers_replace_the_author_s(outbound_queue: Queue) -> None:
    given = [("Sluice-Message-Id", "mine"), ("x", None), ("x", b"\xff")]
    message_id = publish_to("orders-out", {}, headers=given)
    headers = decode_headers(OutboxRow.objects.get().headers)
    assert headers[:2] == [("x", None), ("x", b"\xff")]
    assert [value for name, value in headers if name.lower() == "sluice-message-id"] == [
        message_id.encode()
    ]


def test_only_outbound_queues_can_be_published_to(outbound_queue: Queue) -> None:
    Queue.objects.update(direction=Queue.Direction.INBOUND)
    with pytest.raises(UnknownQueueError) as refused:
        publish_to("orders-out", {})
    assert (refused.value.code, refused.value.queue) == ("UNKNOWN_QUEUE", "orders-out")


# --- inside a handler ---------------------------------------------------------------------------


def test_inside_a_handler_rows_are_kept_for_the_engine(
    outbound_queue: Queue, inside: Outbound
) -> None:
    ids = [publish_to("orders-out", {"n": n}) for n in range(3)]
    assert [row.message_id for row in inside.rows] == ids
    assert not OutboxRow.objects.exists()
    del inside.rows[1:]
    assert [row.message_id for row in inside.rows] == ids[:1]


def test_a_repeated_message_publishes_under_the_same_ids(
    outbound_queue: Queue, inside: Outbound
) -> None:
    first = [publish_to("orders-out", {}) for _ in range(2)]
    inside.begin(a_message({}, message_id="m-2"))
    other = publish_to("orders-out", {})
    inside.begin(a_message({"edited": True}, message_id="m-1", attempt=2))
    assert [publish_to("orders-out", {}) for _ in range(2)] == first
    assert len({*first, other}) == 3


@pytest.mark.parametrize("elsewhere", [{"offset": 8}, {"partition": 1}, {"topic_uuid": "new"}])
def test_a_partner_that_uses_an_id_twice_does_not_double_ours(
    outbound_queue: Queue, inside: Outbound, elsewhere: dict[str, Any]
) -> None:
    """Whoever drops repetitions by our id would lose the second message."""
    here = {"message_id": "m-1", "topic_uuid": "old", "partition": 0, "offset": 7}
    ids = []
    for facts in (here, here | elsewhere):
        inside.begin(a_message({}, **facts))
        ids.append(publish_to("orders-out", {}))
    assert len(set(ids)) == 2


def test_what_took_the_place_of_a_lost_record_has_ids_of_its_own(
    outbound_queue: Queue, inside: Outbound
) -> None:
    """A cluster that lost its last records gives their offsets away a second time."""
    ids = []
    for message_id in ("m-1", "m-2"):
        inside.begin(a_message({}, message_id=message_id, topic_uuid="t", offset=7))
        ids.append(publish_to("orders-out", {}))
    assert len(set(ids)) == 2


def test_ids_of_a_batch_do_not_depend_on_how_it_was_cut(
    outbound_queue: Queue, inside: Outbound
) -> None:
    messages = [a_message({}, message_id=name) for name in ("m-1", "m-2")]

    def sent(batch: list[Message]) -> list[str]:
        inside.begin(batch[0])
        ids = []
        for message in [*batch, *batch]:
            with caused_by(message):
                ids.append(publish_to("orders-out", {}))
        return ids

    together = sent(messages)
    assert len(set(together)) == 4
    assert sorted(sent(messages[:1]) + sent(messages[1:])) == sorted(together)


def test_what_a_handler_rolls_back_itself_is_not_sent(
    outbound_queue: Queue, inside: Outbound
) -> None:
    with transaction.atomic():
        before = publish_to("orders-out", {})
        with suppress(PermanentError), transaction.atomic():
            publish_to("orders-out", {})
            with transaction.atomic():
                publish_to("orders-out", {})
            raise PermanentError("not this one")
        with transaction.atomic():
            after = publish_to("orders-out", {})
    assert [row.message_id for row in inside.rows] == [before, after]


def test_a_queue_is_looked_up_once_a_transaction(
    outbound_queue: Queue, inside: Outbound, django_assert_num_queries: Any
) -> None:
    with django_assert_num_queries(1):
        for _ in range(3):
            publish_to("orders-out", {})


# --- what run_handler shows of it ---------------------------------------------------------------


def test_a_handler_that_publishes_is_tested_with_a_queue_of_the_test() -> None:
    def receipt(message: Message) -> None:
        publish_to("receipts", {"n": message.body["n"]}, key="4711")

    missing = run_handler(receipt, {"n": 7}).failure
    assert missing is not None
    assert missing.code == "UNKNOWN_QUEUE"
    queue = an_outbound_queue("receipts", topic="erp.receipts")
    assert an_outbound_queue("receipts") == queue
    (sent,) = run_handler(receipt, {"n": 7}).published
    assert (sent.topic, sent.key, sent.body) == ("erp.receipts", b"4711", {"n": 7})


def test_a_failure_leaves_neither_rows_nor_messages(outbound_queue: Queue) -> None:
    def half_done(message: Message) -> None:
        Asset.objects.create(assetnum="1", siteid="N", status="OPERATING")
        publish_to("orders-out", {})
        raise PermanentError("half-way", code="HALF_WAY")

    outcome = run_handler(half_done, {})
    assert outcome.failure is not None
    assert outcome.failure.code == "HALF_WAY"
    assert (outcome.published, Asset.objects.count()) == ([], 0)


def test_a_swallowed_error_is_told() -> None:
    def swallows(message: Message) -> None:
        Asset.objects.create(assetnum="1", siteid="N", status="OPERATING")
        with suppress(Exception):
            Asset.objects.create(assetnum="1", siteid="N", status="OPERATING")

    failure = run_handler(swallows, {}).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", "SWALLOWED_DATABASE_ERROR")


def test_a_deferred_constraint_is_checked() -> None:
    def dangles(message: Message) -> None:
        MeterReading.objects.create(
            asset_id=999_999, meter="m", value=1, read_at="2026-03-01T08:00:00Z"
        )

    failure = run_handler(dangles, {}).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("dependency", "FOREIGN_KEY_VIOLATION")


def test_a_payload_that_no_handler_would_see_is_told() -> None:
    failure = run_handler(print, '{"a": 1').failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", "TRUNCATED_JSON")


def test_a_handler_sees_what_it_is_given() -> None:
    seen: list[Message] = []
    outcome = run_handler(
        seen.append,
        {"a": 1},
        headers={"x": "1"},
        system="erp",
        user="wilson",
        attempt=3,
        key=b"k",
        late=True,
    )
    assert outcome.is_applied
    (message,) = seen
    assert message.body == {"a": 1}
    assert (message.system, message.user, message.header("X")) == ("erp", "wilson", "1")
    assert (message.attempt, message.key, message.late) == (3, b"k", True)
    assert message.text == b'{"a":1}'


def test_an_unknown_interface_is_told() -> None:
    with pytest.raises(NoHandlerError, match="MXASSETInterface"):
        run_handler("MXNOBODYInterface", {})


def test_a_service_with_a_structure_needs_no_code() -> None:
    structure = ObjectStructure.objects.create(name="places", key_paths=["$.location"])
    EnterpriseService.objects.create(interface="MXLOCATIONInterface", structure=structure)
    assert run_handler("MXLOCATIONInterface", {"location": "H"}).is_applied
    failure = run_handler("MXLOCATIONInterface", {}).failure
    assert failure is not None
    assert failure.code == "NO_KEY"


# --- other databases ----------------------------------------------------------------------------


@pytest.fixture
def other_database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    default = connections.settings["default"]
    monkeypatch.setitem(connections.settings, "other", {**default})
    # Django's tests forbid connecting to a database that was not there at their start.
    connections["other"].connect()
    yield
    connections["other"].close()
    del connections["other"]


def asks_other(message: Message) -> None:
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT 1")


def test_a_statement_on_another_database_is_refused(other_database: None) -> None:
    failure = run_handler(asks_other, {}).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", "FOREIGN_DATABASE")
    assert "'other'" in failure.text
    with connections["other"].cursor() as cursor:
        cursor.execute("SELECT 1")


def test_a_handler_may_declare_that_it_does_no_harm(
    other_database: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_by_interface", dict(registry._by_interface))
    inbound("MXTWICEInterface", at_least_once=True)(asks_other)
    assert run_handler("MXTWICEInterface", {}).is_applied


# --- registering --------------------------------------------------------------------------------


def test_a_class_is_made_once_and_called_for_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_by_interface", dict(registry._by_interface))

    @inbound("MXCLASSInterface", isolated=True)
    class Taker:
        seen: list[object]

        def __init__(self) -> None:
            self.seen = []

        def __call__(self, message: Message) -> None:
            self.seen.append(message.body)

    for n in range(2):
        assert run_handler("MXCLASSInterface", [n]).is_applied
    assert run_handler(Taker, [2]).is_applied
    found = registry.get("MXCLASSInterface")
    assert found is not None
    assert (found.call.seen, found.isolated) == ([[0], [1], [2]], True)


def test_two_handlers_cannot_have_one_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("integration.handlers.registry.registry", Registry())
    inbound("MXONEInterface")(asks_other)
    inbound("MXONEInterface")(asks_other)
    with pytest.raises(HandlerConflictError, match=r"asks_other.* .*a_queue"):
        inbound("MXONEInterface")(a_queue)
