"""The way out of the sample: a channel of orders, its three targets and their endpoints."""

import json
from collections.abc import Iterator
from typing import Any, Final

import psycopg

from integration.models import ChannelTarget, Endpoint, ExternalSystem, PublishChannel, Queue
from sample import names, partners

DESCRIPTIONS: Final = {
    names.SUPPLIER: "A supplier: takes approved orders over HTTP, and drops repeats",
    names.ARCHIVE: "The archive: keeps each approved order as a file",
    names.LEDGER: "The ledger: has approved orders in a database of its own",
}
# Queue, partitions and what is particular about it.
QUEUES: Final[tuple[tuple[str, int, dict[str, Any]], ...]] = (
    (
        names.TO_SUPPLIER,
        3,
        {
            "description": "Approved orders for the supplier, several at a time, each in its order",
            "kind": Queue.Kind.CONTINUOUS,
            "ordering": Queue.Ordering.KEY,
            "lanes": 4,
            "max_retries": 2,
            "retry_delay_seconds": 5,
        },
    ),
    (
        names.TO_ARCHIVE,
        1,
        {
            "description": "Approved orders for the archive, one after another",
            "kind": Queue.Kind.SEQUENTIAL,
            "max_retries": 2,
            "retry_delay_seconds": 5,
        },
    ),
    (
        names.TO_LEDGER,
        2,
        {
            "description": "Approved orders for the ledger's database",
            "kind": Queue.Kind.CONTINUOUS,
            "lanes": 2,
            "max_retries": 2,
            "retry_delay_seconds": 5,
        },
    ),
)


def endpoints() -> Iterator[str]:
    """Make the three endpoints that are missing, and what stands behind them."""
    try:
        partners.make_database()
    except psycopg.Error as problem:
        yield f"no database for the ledger ({str(problem).strip()}); its orders wait in Kafka"
    for name, system, fields in _endpoints():
        owner = ExternalSystem.objects.get(name=system)
        given = {"system": owner, **fields}
        row, is_new = Endpoint.objects.get_or_create(name=name, defaults=given)
        if is_new:
            yield f"the endpoint {row}"
    yield from found_again()


def found_again() -> Iterator[str]:
    """Point the supplier's endpoint at where its server listens now."""
    row = Endpoint.objects.filter(name=names.SUPPLIER_DOOR).first()
    url = f"{partners.supplier_address()}/orders"
    if row is not None and row.properties.get("url") != url:
        row.properties["url"] = url
        row.save(update_fields=["properties"])
        yield f"the endpoint {row} point at {url}"
    ledger = Endpoint.objects.filter(name=names.LEDGER_TABLE).first()
    known = partners.database_properties()
    # The servers of `make run` have taken another port.
    if ledger is not None and ledger.properties.get("port") != known["port"]:
        ledger.properties.update(known)
        ledger.save(update_fields=["properties"])
        yield f"the endpoint {ledger} point at port {known['port']}"


def _endpoints() -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield (
        names.SUPPLIER_DOOR,
        names.SUPPLIER,
        {
            "handler_type": Endpoint.HandlerType.HTTP,
            "properties": {
                "url": f"{partners.supplier_address()}/orders",
                "private_network": True,
                "read_seconds": 10,
                "total_seconds": 15,
            },
            "idempotent": True,
        },
    )
    yield (
        names.ARCHIVE_FOLDER,
        names.ARCHIVE,
        {
            "handler_type": Endpoint.HandlerType.FILE,
            "properties": {
                "folder": partners.ORDERS_FOLDER,
                "file_name": "{$.ponum}-{$.revision}-{message_id}.json",
                "format": "json",
            },
            "idempotent": True,
        },
    )
    password = partners.database_password()
    yield (
        names.LEDGER_TABLE,
        names.LEDGER,
        {
            "handler_type": Endpoint.HandlerType.DATABASE,
            "properties": partners.database_properties(),
            "secrets": json.dumps({"password": password}) if password else "",
            "idempotent": True,
        },
    )


def queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, partitions and fields of the queues that the targets take."""
    ends = dict(zip(names.TARGETS, names.ENDPOINTS, strict=True))
    for name, partitions, fields in QUEUES:
        yield (
            name,
            partitions,
            {
                **fields,
                "direction": Queue.Direction.OUTBOUND,
                "start_from": Queue.StartFrom.BEGINNING,
                "carrier": Queue.Carrier.ROW,
                "endpoint": _endpoint_named(ends[name]),
            },
        )


def _endpoint_named(name: str) -> Any:  # noqa: ANN401 - looked up when its queue is made
    return lambda: Endpoint.objects.get(name=name)


def channel() -> Iterator[str]:
    """The channel with a target for each partner, once their queues are there."""
    row, is_new = PublishChannel.objects.get_or_create(
        name=names.PURCHASE,
        defaults={
            "description": "Approved purchase orders, for whoever has to act on them",
            "key_path": "$.ponum",
            "external_id_path": "$.ponum",
            "search_paths": ["$.vendor"],
        },
    )
    if is_new:
        yield f"the channel {row}"
    for queue, system in names.TARGETS.items():
        _, is_new = ChannelTarget.objects.get_or_create(
            channel=row,
            system=ExternalSystem.objects.get(name=system),
            defaults={"queue": Queue.objects.get(name=queue)},
        )
        if is_new:
            yield f"the target {system} of {row}"
