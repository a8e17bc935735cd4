"""The handlers of the sample department: one for each kind of message."""

import os
import signal
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from billiard.process import current_process
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from integration.handlers import (
    Exponential,
    Failure,
    Message,
    MissingDependencyError,
    OutageError,
    PermanentError,
    Superseded,
    TransientError,
    Verdict,
    arrived,
    claim_newest,
    inbound,
    missing_dependency,
    permanent,
    publish,
    publish_to,
)
from sample.checking import check
from sample.models import Asset, MeterReading, PurchaseOrder, PurchaseOrderLine, Registration
from sample.names import (
    ASSET,
    LEVEL,
    LEVELS,
    METER,
    ORDER,
    ORDERS,
    PURCHASE,
    RECEIPTS,
    REGISTRATION,
)
from sample.reading import Fields, fields_of, many, need

ASSET_FIELDS: Final = (
    "description",
    "status",
    "location",
    "serialnum",
    "installed_on",
    "purchase_price",
)
# A terminal of this state ends the process that reads its message.
FAULTY: Final = "FAULTY"
WORKER: Final = "ForkPoolWorker"
# Finance closes an account for some seconds at a time; a later try finds it open.
CLOSING: Final = "-CLOSING"
TRIES_WHILE_CLOSING: Final = 2


@inbound(ASSET)
def take_asset(message: Message) -> None:
    """Create or update one asset. Its queue is sequential: the last message is the newest."""
    fields = fields_of(message)
    values = {name: fields[name] for name in ASSET_FIELDS if fields.get(name)}
    values.setdefault("description", "")
    asset = Asset(assetnum=need(fields, "assetnum"), siteid=need(fields, "siteid"), **values)
    check(asset)
    Asset.objects.bulk_create(
        [asset],
        update_conflicts=True,
        unique_fields=["siteid", "assetnum"],
        update_fields=list(values),
    )
    # Orders and readings that came before their asset are tried again at once.
    arrived("asset", f"{asset.siteid}/{asset.assetnum}")


@inbound(ORDER)
def take_order(message: Message) -> Verdict:
    """Store an order with its lines, and confirm an approved one to the sender.

    The queue is continuous, so an old revision may come after a newer one: it is superseded.
    """
    fields = fields_of(message)
    if message.attempt <= TRIES_WHILE_CLOSING and str(fields.get("glaccount")).endswith(CLOSING):
        raise TransientError("Finance is closing the account.", code="ACCOUNT_CLOSING")
    ponum, revision = str(need(fields, "ponum")), _whole(fields, "revision")
    if not claim_newest(ORDERS, ponum, message, version=revision):
        return Superseded()
    order = PurchaseOrder(
        ponum=ponum,
        revision=revision,
        vendor=need(fields, "vendor"),
        status=need(fields, "status"),
        ordered_at=need(fields, "orderdate"),
    )
    _save(order, many(fields.get("poline")), str(need(fields, "siteid")))
    if order.status == PurchaseOrder.Status.APPROVED:
        publish(PURCHASE, _document(order, str(fields["siteid"])), key=ponum)
        receipt = {"ponum": ponum, "revision": revision, "total": order.total}
        publish_to(RECEIPTS, receipt, key=ponum, interface="MXRECEIPTInterface")
    return None


def _document(order: PurchaseOrder, site: str) -> Fields:
    """An approved order as the partners get it."""
    return {
        "ponum": order.ponum,
        "revision": order.revision,
        "siteid": site,
        "vendor": order.vendor,
        "total": order.total,
        "lines": [
            {
                "number": line.number,
                "description": line.description,
                "quantity": line.quantity,
                "unit_cost": line.unit_cost,
            }
            for line in order.lines.all()
        ],
    }


def _save(order: PurchaseOrder, lines: Sequence[Fields], site: str) -> None:
    check(order)
    PurchaseOrder.objects.bulk_create(
        [order],
        update_conflicts=True,
        unique_fields=["ponum"],
        update_fields=["revision", "vendor", "status", "ordered_at"],
    )
    order.lines.all().delete()
    numbers = {str(need(line, "assetnum")) for line in lines}
    assets = {a.assetnum: a for a in Asset.objects.filter(siteid=site, assetnum__in=numbers)}
    for missing in sorted(numbers - assets.keys()):
        raise MissingDependencyError("asset", f"{site}/{missing}")
    rows = [_line(order, line, assets[str(line["assetnum"])]) for line in lines]
    PurchaseOrderLine.objects.bulk_create(rows)


def _line(order: PurchaseOrder, fields: Fields, asset: Asset) -> PurchaseOrderLine:
    line = PurchaseOrderLine(
        order=order,
        number=_whole(fields, "polinenum"),
        asset=asset,
        description=fields.get("description") or "",
        quantity=need(fields, "orderqty"),
        unit_cost=need(fields, "unitcost"),
    )
    check(line, exclude=["order", "asset"])
    return line


def _whole(fields: Fields, name: str) -> int:
    try:
        return int(need(fields, name))
    except (TypeError, ValueError):
        raise PermanentError(
            f"The field {name} is not a whole number.", code="BAD_NUMBER"
        ) from None


@inbound(METER, batch=True)
def take_readings(messages: Sequence[Message]) -> list[Verdict]:
    """Store readings, a whole batch with two statements. A reading sent twice is stored once."""
    read = [_reading(message) for message in messages]
    pairs = {(r["siteid"], r["assetnum"]) for r in read if isinstance(r, dict)}
    known = Asset.objects.filter(assetnum__in={number for _, number in pairs})
    assets = {(asset.siteid, asset.assetnum): asset for asset in known}
    verdicts: list[Verdict] = []
    rows = []
    for reading in read:
        if not isinstance(reading, dict):
            verdicts.append(reading)
            continue
        asset = assets.get((reading["siteid"], reading["assetnum"]))
        if asset is None:
            key = f"{reading['siteid']}/{reading['assetnum']}"
            verdicts.append(missing_dependency("asset", key))
            continue
        rows.append(MeterReading(asset=asset, **reading["row"]))
        verdicts.append(None)
    MeterReading.objects.bulk_create(rows, ignore_conflicts=True)
    return verdicts


def _reading(message: Message) -> dict[str, Any] | Verdict:
    """The reading of one message, or the verdict that it cannot be one."""
    try:
        fields = fields_of(message)
        row = {
            "meter": need(fields, "metername"),
            "value": Decimal(str(need(fields, "reading"))),
            "read_at": parse_datetime(str(need(fields, "readingdate"))),
        }
        place = {"siteid": str(need(fields, "siteid")), "assetnum": str(need(fields, "assetnum"))}
        MeterReading(**row).clean_fields(exclude=["asset"])
    except PermanentError as e:
        return permanent(e.sentence, e.failure_code)
    except (ValidationError, ValueError, InvalidOperation):
        return permanent("The reading or its date cannot be read.", "BAD_READING")
    if row["value"] < 0:
        return permanent("A meter cannot show less than zero.", "NEGATIVE_READING")
    return {**place, "row": row}


def call_back(message: Message, failure: Failure) -> None:
    """Nobody is lost whom the website has told that all is well: people call them."""
    del failure
    email = str(fields_of(message).get("email") or "")
    Registration.objects.create(email=email, needs_a_call=True)


@inbound(REGISTRATION, retry=Exponential(0.5, longest=5, retries=8), on_exhausted=call_back)
def take_registration(message: Message) -> None:
    """Register a person of the website."""
    Registration.objects.create(email=need(fields_of(message), "email"))


@inbound(LEVEL)
def take_level(message: Message) -> Verdict:
    """Remember the newest level of an item.

    The depot's database closes for stock-taking now and then: nothing can be taken until it is
    open again, which is an outage and nobody's failure.
    """
    fields = fields_of(message)
    if fields.get("terminal") == FAULTY:
        _crash()
    closed = parse_datetime(str(fields.get("closed_until") or ""))
    if closed is not None and closed > timezone.now():
        raise OutageError(f"The depot's database is closed until {closed:%H:%M:%S} UTC.")
    place, item = str(need(fields, "siteid")), str(need(fields, "itemnum"))
    if _whole(fields, "curbal") < 0:
        raise PermanentError("A depot cannot hold less than nothing.", code="NEGATIVE_BALANCE")
    return None if claim_newest(LEVELS, f"{place}/{item}", message) else Superseded()


def _crash() -> None:
    """End this process as a faulty driver would, if it is a worker's: a page only refuses."""
    if current_process().name.startswith(WORKER):
        os.kill(os.getpid(), signal.SIGKILL)
    raise PermanentError("The terminal's driver ends every worker here.", code="FAULTY_TERMINAL")
