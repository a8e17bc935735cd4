"""The sample handlers, each with one payload: what an author's own tests look like."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import DataError, connection
from lxml import etree

from integration.handlers.failures import classify
from integration.models import ObjectStructure, OutboxRow
from integration.testing import a_publish_channel, an_outbound_queue, run_handler
from sample.handlers import ORDERS, PURCHASE, RECEIPTS, take_readings
from sample.models import Asset, MeterReading, PurchaseOrder

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

ASSET = {
    "assetnum": "P-100",
    "siteid": "NORTH",
    "description": "Feed pump",
    "status": "OPERATING",
    "purchase_price": Decimal("1250.50"),
}


@pytest.fixture
def asset() -> Asset:
    return Asset.objects.create(assetnum="P-100", siteid="NORTH", status="OPERATING")


@pytest.fixture
def orders() -> None:
    ObjectStructure.objects.create(name=ORDERS, key_paths=["$.ponum"])
    an_outbound_queue(RECEIPTS, topic="erp.receipts")
    a_publish_channel(PURCHASE, "supplier", "archive")


def order(**changes: Any) -> dict[str, Any]:
    line = {"polinenum": 1, "assetnum": "P-100", "orderqty": 2, "unitcost": Decimal("10.25")}
    whole = {
        "ponum": "4500001",
        "revision": 1,
        "siteid": "NORTH",
        "vendor": "Brightwater Pumps",
        "status": "APPR",
        "orderdate": "2026-03-01T08:00:00Z",
        "poline": [line],
    }
    return whole | changes


def reading(**changes: Any) -> dict[str, Any]:
    whole = {
        "assetnum": "P-100",
        "siteid": "NORTH",
        "metername": "RUNHOURS",
        "reading": Decimal("17.5"),
        "readingdate": "2026-03-01T08:00:00Z",
    }
    return whole | changes


def test_an_asset_is_created_and_then_updated() -> None:
    assert run_handler("MXASSETInterface", ASSET).is_applied
    assert run_handler("MXASSETInterface", ASSET | {"status": "NOT READY"}).is_applied
    stored = Asset.objects.get()
    assert (stored.status, stored.purchase_price) == ("NOT READY", Decimal("1250.50"))


def test_an_asset_may_come_as_xml() -> None:
    xml = etree.fromstring(
        '<MXASSET xmlns="urn:partner"><ASSET><ASSETNUM>P-7</ASSETNUM><SITEID>SOUTH</SITEID>'
        "<DESCRIPTION>Motor</DESCRIPTION><STATUS>OPERATING</STATUS></ASSET></MXASSET>"
    )
    assert run_handler("MXASSETInterface", xml).is_applied
    assert Asset.objects.get().description == "Motor"


def test_an_asset_with_an_unknown_status_is_refused_for_good_and_the_known_are_named() -> None:
    failure = run_handler("MXASSETInterface", ASSET | {"status": "BROKEN"}).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("permanent", "VALIDATION")
    assert failure.text.startswith("status: 'BROKEN' ")
    assert failure.text.endswith(" OPERATING, NOT READY, DECOMMISSIONED.")
    assert not Asset.objects.exists()


def test_values_that_the_database_quotes_are_left_out_and_its_types_are_told() -> None:
    with pytest.raises(DataError) as met, connection.cursor() as cursor:
        cursor.execute("SELECT %s::text::integer", ["SECRET"])
    assert classify(met.value).text == "invalid input syntax for type integer: …"


def test_an_order_needs_its_assets(orders: None) -> None:
    failure = run_handler("MXPOInterface", order()).failure
    assert failure is not None
    assert (failure.kind, failure.code) == ("dependency", "MISSING_DEPENDENCY")
    assert "asset 'NORTH/P-100'" in failure.text
    assert not PurchaseOrder.objects.exists()


def test_an_approved_order_is_confirmed(orders: None, asset: Asset) -> None:
    outcome = run_handler("MXPOInterface", order(), message_id="m-1")
    assert outcome.is_applied
    *orders_sent, sent = outcome.published
    assert [one.interface for one in orders_sent] == [PURCHASE, PURCHASE]
    assert orders_sent[0].body["total"] == Decimal("20.50")
    assert (sent.topic, sent.interface, sent.key) == (
        "erp.receipts",
        "MXRECEIPTInterface",
        b"4500001",
    )
    assert sent.body == {"ponum": "4500001", "revision": 1, "total": Decimal("20.50")}
    again = run_handler("MXPOInterface", order(revision=2), message_id="m-1")
    assert again.published[-1].message_id == sent.message_id
    assert not OutboxRow.objects.exists(), "the engine inserts what a handler published"


def test_an_old_revision_never_replaces_a_newer_one(orders: None, asset: Asset) -> None:
    assert run_handler("MXPOInterface", order(revision=3)).is_applied
    late = run_handler("MXPOInterface", order(revision=2, vendor="Nobody"))
    assert late.is_superseded
    assert late.published == []
    assert PurchaseOrder.objects.get().vendor == "Brightwater Pumps"


@pytest.mark.parametrize(("attempt", "applied"), [(1, False), (2, False), (3, True)])
def test_a_closing_account_is_open_at_the_third_try(
    orders: None, asset: Asset, attempt: int, applied: bool
) -> None:
    outcome = run_handler("MXPOInterface", order(glaccount="6200-CLOSING"), attempt=attempt)
    assert outcome.is_applied is applied


def test_readings_are_stored_once(asset: Asset) -> None:
    for _ in range(2):
        assert run_handler("MXMETERInterface", reading()).is_applied
    assert MeterReading.objects.get().value == Decimal("17.5")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"reading": -1}, "NEGATIVE_READING"),
        ({"reading": "much"}, "BAD_READING"),
        ({"readingdate": "tomorrow"}, "BAD_READING"),
        ({"metername": ""}, "FIELD_MISSING"),
        ({"assetnum": "P-999"}, "MISSING_DEPENDENCY"),
    ],
)
def test_a_bad_reading_fails_alone(asset: Asset, changes: dict[str, Any], code: str) -> None:
    failure = run_handler(take_readings, reading(**changes)).failure
    assert failure is not None
    assert failure.code == code
