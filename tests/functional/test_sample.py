"""The sample world: its traffic, its set-up, and what the engine makes of both."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.utils import timezone
from lxml import etree

from crontasks.models import CronInstance
from devstack.servers import Servers
from integration import envelope
from integration.models import (
    MessageError,
    MessageTrack,
    OutboxRow,
    Provider,
    Queue,
    QueuePartition,
    StoredObject,
)
from integration.runs.queues import run_queue
from sample import documents, names, traffic
from sample.management.commands.sample_traffic import Partner
from sample.models import Asset, MeterReading, PurchaseOrder
from sample.partner import LARGEST_TOTAL
from sample.wire import Sent, to_xml
from tests.support.kafka_world import Kafka
from tests.support.sample_world import on_own_topics, plant, seeded

NOW = datetime(2026, 3, 1, 8, tzinfo=UTC)


# --- the traffic alone --------------------------------------------------------------------------


def stream(seed: int, count: int, elapsed_seconds: float = 0) -> list[Sent]:
    made = traffic.Traffic(Random(seed))
    opening = [*made.opening(NOW), *made.due(NOW, elapsed_seconds)]
    return [*opening, *(made.next(NOW) for _ in range(count))]


@pytest.mark.fast
def test_a_person_who_removes_what_is_not_base64_has_a_sound_message() -> None:
    sent = traffic.not_base64(Random(6), NOW)
    flawed = envelope.read(sent.value or b"", sent.headers)
    assert isinstance(flawed, envelope.Flaw), flawed
    assert flawed.code == "BAD_BASE64"
    repaired = envelope.read((sent.value or b"").replace(b"%%%", b""), sent.headers)
    assert isinstance(repaired, envelope.Document), repaired
    assert repaired.interface == names.METER


@pytest.mark.fast
def test_sound_messages_can_be_read_in_every_form() -> None:
    forms = set()
    for sent in stream(1, 300):
        if sent.why:
            continue
        read = envelope.read(sent.value or b"", sent.headers)
        assert isinstance(read, envelope.Document), read
        assert read.interface
        forms.add((read.mimetype, read.wrapped, b'"compressed"' in (sent.value or b"")))
    assert forms == {
        (kind, wrapped, packed)
        for kind in (envelope.JSON, envelope.XML)
        for wrapped, packed in ((True, True), (True, False), (False, False))
    }


@pytest.mark.fast
def test_every_kind_of_failure_comes_by() -> None:
    made = traffic.Traffic(Random(2))
    count = traffic.FAILING_EVERY * len(traffic.FAILURES)
    failing = [made.next(NOW).why for _ in range(count)]
    assert len({why for why in failing if why}) == len(traffic.FAILURES)
    sound = sum(1 for why in failing if not why)
    assert 0.8 < sound / len(failing) < 0.95


@pytest.mark.fast
def test_one_message_blocks_the_sequential_queue_after_a_while() -> None:
    early = stream(3, 50, elapsed_seconds=traffic.BLOCK_AFTER_SECONDS - 0.1)
    late = stream(3, 50, elapsed_seconds=traffic.BLOCK_AFTER_SECONDS)
    assert [s for s in early if s.queue == names.ASSETS and s.why] == []
    (blocker,) = (s for s in late if s.queue == names.ASSETS and s.why)
    read = envelope.read(blocker.value or b"", blocker.headers)
    assert isinstance(read, envelope.Document)
    assert "BROKEN" in str(read.payload)
    behind = late[late.index(blocker) + 1 :][: traffic.BEHIND_THE_BLOCK]
    assert {sent.queue for sent in behind} == {names.ASSETS}


@pytest.mark.fast
def test_outages_come_back_and_the_crash_comes_once() -> None:
    made = traffic.Traffic(Random(4))
    told: list[str] = []
    for elapsed_seconds in range(0, 700, 10):
        told += [sent.why for sent in made.due(NOW, elapsed_seconds) if sent.queue == names.STOCK]
    assert [why.split(":")[0] for why in told] == ["crash", "outage", "outage", "outage"]


@pytest.mark.fast
def test_an_order_that_the_supplier_refuses_comes_within_half_a_minute() -> None:
    made = traffic.Traffic(Random(4))
    due = [sent for sent in made.due(NOW, 30) if sent.queue == names.MAINTENANCE]
    (order,) = (envelope.read(sent.value or b"", sent.headers) for sent in due)
    assert isinstance(order, envelope.Document)
    lines = order.body["poline"]
    assert sum(line["orderqty"] * Decimal(line["unitcost"]) for line in lines) > LARGEST_TOTAL


@pytest.mark.fast
def test_hundreds_of_one_cause_never_reach_the_failure_threshold() -> None:
    levels = [sent for sent in traffic.Traffic(Random(5)).opening(NOW) if sent.queue == names.STOCK]
    assert sum(1 for sent in levels if sent.why) == traffic.FAULTY_LEVELS
    longest = max(len(run) for run in "".join("x" if s.why else " " for s in levels).split())
    assert longest < Queue().failure_threshold


@pytest.mark.fast
def test_xml_repeats_what_is_a_list() -> None:
    order = documents.order(Random(4), NOW) | {"poline": [{"polinenum": 1}, {"polinenum": 2}]}
    root = etree.fromstring(to_xml(names.ORDER, order))
    assert (root.tag, root[0].tag) == ("MXPO", "PO")
    assert [line.findtext("POLINENUM") for line in root.iter("POLINE")] == ["1", "2"]


# --- on real servers ----------------------------------------------------------------------------


@pytest.fixture
def planted(servers: Servers, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample as `make run` sets it up, on topics that no other test has written to."""
    on_own_topics(monkeypatch)
    plant(Kafka(servers.kafka_bootstrap))


@pytest.fixture
def planted_anew(servers: Servers, transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, by the command, whatever was planted before."""
    on_own_topics(monkeypatch)
    seeded()


@pytest.mark.servers
def test_the_set_up_is_complete_and_can_be_repeated(planted: None) -> None:
    assert seeded() == ""
    assert get_user_model().objects.get(username="admin").check_password("only-for-tests")
    assert set(Queue.objects.values_list("name", flat=True)) == set(names.TOPICS)
    found = QueuePartition.objects.values_list("queue__name", "next_offset")
    assert sorted(found) == sorted(
        [
            *((name, 0) for name in (names.ASSETS, names.ERRORS, names.STOCK, names.TO_ARCHIVE)),
            *[(names.MAINTENANCE, 0)] * 3,
            *[(names.TO_SUPPLIER, 0)] * 3,
            *[(names.TO_LEDGER, 0)] * 2,
        ]
    )
    systems = Queue.objects.values_list("name", "system__name")
    assert dict(systems) == names.SENDERS
    consumers = CronInstance.objects.filter(queue__isnull=False)
    assert {(c.queue.name, c.task) for c in consumers if c.queue} == {
        (names.ASSETS, "queue_consumer"),
        (names.MAINTENANCE, "queue_consumer"),
        (names.STOCK, "queue_consumer"),
        (names.ERRORS, "error_queue_consumer"),
        *((name, "queue_consumer") for name in names.TARGETS),
    }


@pytest.mark.servers
def test_the_set_up_follows_the_servers_to_another_port(planted: None) -> None:
    Provider.objects.update(bootstrap_servers="127.0.0.1:1")
    assert "point at" in seeded()
    assert Provider.objects.get().bootstrap_servers != "127.0.0.1:1"


@pytest.mark.servers
@pytest.mark.django_db
def test_without_the_sample_there_is_only_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_ADMIN_PASSWORD", raising=False)
    with pytest.raises(CommandError, match="SLUICE_ADMIN_PASSWORD"):
        seeded("--no-sample")
    monkeypatch.setenv("SLUICE_ADMIN_PASSWORD", "only-for-tests")
    seeded("--no-sample")
    assert get_user_model().objects.get().get_username() == "admin"
    assert not Queue.objects.exists()


@pytest.fixture
def partner(planted: None) -> Iterator[Partner]:
    sending = Partner()
    yield sending
    assert sending.close() == 0


def run(name: str) -> None:
    Queue.objects.filter(name=name).update(stay_seconds=0)
    run_queue(Queue.objects.get(name=name).pk)


@pytest.mark.servers
def test_each_message_ends_where_it_belongs(partner: Partner) -> None:
    made = traffic.Traffic(Random(5))
    for sent in made.opening(NOW):
        partner.send(sent)
    assert partner.close() == 0
    run(names.ASSETS)
    assert Asset.objects.count() == documents.ASSETS
    for make in traffic.FAILURES:
        partner.send(make(Random(6), NOW))
    partner.send(traffic.blocking(Random(7)))
    for _ in range(60):
        partner.send(made.next(NOW))
    assert partner.close() == 0
    run(names.ASSETS)
    run(names.MAINTENANCE)

    blocked = QueuePartition.objects.get(queue__name=names.ASSETS)
    assert (blocked.state, blocked.state_code) == ("BLOCKED", "HEAD_HELD")
    assert MessageError.objects.get(queue__name=names.ASSETS).code == "VALIDATION"
    failed = MessageError.objects.filter(queue__name=names.MAINTENANCE)
    assert {(row.failure_class, row.code) for row in failed} == {
        ("permanent", "NEGATIVE_READING"),
        ("permanent", "SCHEMA_VIOLATION"),
        ("permanent", "TRUNCATED_JSON"),
        ("permanent", "UNKNOWN_SERVICE"),
        ("permanent", "CURLY_QUOTES"),
        ("permanent", "BAD_BASE64"),
        ("transient", "ACCOUNT_CLOSING"),
        ("dependency", "MISSING_DEPENDENCY"),
        ("disabled", "SERVICE_DISABLED"),
    }
    assert MessageTrack.objects.filter(ended="SUPERSEDED").exists()
    assert MeterReading.objects.exists()
    assert PurchaseOrder.objects.exists()
    stored = StoredObject.objects.filter(structure__name=names.LOCATIONS)
    known = QueuePartition.objects.filter(queue__name=names.MAINTENANCE)
    assert {row.topic_uuid for row in stored} == {row.topic_uuid for row in known}
    assert OutboxRow.objects.filter(topic=names.TOPICS[names.RECEIPTS], kind="MESSAGE").exists()


@pytest.mark.servers
def test_the_depots_messages_end_where_they_belong(partner: Partner) -> None:
    for sent in traffic.Traffic(Random(5)).opening(NOW):
        partner.send(sent)
    partner.send(traffic.crashing(Random(8)))
    partner.send(traffic.closed_depot(Random(9), NOW))
    assert partner.close() == 0
    run(names.STOCK)
    stock = MessageError.objects.filter(queue__name=names.STOCK)
    counted = {code: stock.filter(code=code).count() for code in {row.code for row in stock}}
    # No worker's process here: what would end one is refused instead.
    assert counted == {"FIELD_MISSING": traffic.FAULTY_LEVELS, "FAULTY_TERMINAL": 1}
    assert QueuePartition.objects.get(queue__name=names.STOCK).state == "RUNNING"
    assert StoredObject.objects.filter(structure__name=names.LEVELS).exists()


@pytest.mark.servers
def test_the_command_sends_and_counts(planted: None) -> None:
    out = io.StringIO()
    call_command("sample_traffic", rate=50, seconds=0.5, seed=1, stdout=out)
    assert "0 unconfirmed" in out.getvalue()
    assert "sound" in out.getvalue()


@pytest.mark.servers
@pytest.mark.django_db
def test_the_command_says_when_nothing_is_set_up() -> None:
    with pytest.raises(CommandError, match="seed_sample"):
        call_command("sample_traffic", seconds=0)


@pytest.mark.servers
def test_a_closed_depot_is_an_outage_that_spends_nothing(partner: Partner) -> None:
    until = timezone.now() + timedelta(minutes=5)
    partner.send(traffic.closed_depot(Random(1), until))
    assert partner.close() == 0
    run(names.STOCK)
    place = QueuePartition.objects.get(queue__name=names.STOCK)
    assert (place.state, place.next_offset) == ("OUTAGE", 0)
    assert not MessageError.objects.filter(queue__name=names.STOCK).exists()
