"""The way out of the sample: a channel of orders, its three targets and their endpoints."""

from collections.abc import Iterator
from typing import Any, Final

import psycopg

from console.setup.channels import ChannelForm
from console.setup.endpoints import EndpointForm
from console.setup.targets import TargetForm
from integration.actions import configuration
from integration.models import ChannelTarget, Endpoint, ExternalSystem, PublishChannel, Queue
from sample import names, partners
from sample.entering import AUTHOR, entered

DESCRIPTIONS: Final = {
    names.SUPPLIER: "A supplier: takes approved orders over HTTP, and drops repeats",
    names.ARCHIVE: "The archive: keeps each approved order as a file",
    names.LEDGER: "The ledger: has approved orders in a database of its own",
}
# A port that is the default is not stored.
POSTGRES_PORT: Final = 5_432
# Queue, partitions and what is particular about it.
QUEUES: Final[tuple[tuple[str, int, dict[str, Any]], ...]] = (
    (
        names.TO_SUPPLIER,
        3,
        {
            "description": "Approved orders for the supplier, several at a time, each in its order",
            "kind": Queue.Kind.CONTINUOUS,
            "ordering": Queue.Ordering.KEY,
            "concurrency": 4,
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
            "concurrency": 2,
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
        if not Endpoint.objects.filter(name=name).exists():
            owner = ExternalSystem.objects.get(name=system)
            yield f"the endpoint {entered(EndpointForm, name=name, system=owner, **fields)}"
    yield from found_again()


def found_again() -> Iterator[str]:
    """Point the supplier's endpoint at where its server listens now."""
    row = Endpoint.objects.filter(name=names.SUPPLIER_ADDRESS).first()
    url = f"{partners.supplier_address()}/orders"
    if row is not None and row.properties.get("url") != url:
        row.properties["url"] = url
        configuration.save(row, AUTHOR)
        yield f"the endpoint {row} point at {url}"
    ledger = Endpoint.objects.filter(name=names.LEDGER_TABLE).first()
    properties = partners.database_properties()
    # The servers of `make run` have taken another port.
    if ledger is not None and ledger.properties.get("port", POSTGRES_PORT) != properties["port"]:
        ledger.properties.update(properties)
        configuration.save(ledger, AUTHOR)
        yield f"the endpoint {ledger} point at port {properties['port']}"


def _endpoints() -> Iterator[tuple[str, str, dict[str, Any]]]:
    yield (
        names.SUPPLIER_ADDRESS,
        names.SUPPLIER,
        {
            "endpoint_type": "http",
            "url": f"{partners.supplier_address()}/orders",
            "private_network": True,
            "read_seconds": 10,
            "total_seconds": 15,
            "idempotent": True,
        },
    )
    yield (
        names.ARCHIVE_FOLDER,
        names.ARCHIVE,
        {
            "endpoint_type": "file",
            "folder": partners.ORDERS_FOLDER,
            "file_name": "{$.ponum}-{$.revision}-{message_id}.json",
            "format": "json",
            "idempotent": True,
        },
    )
    yield (
        names.LEDGER_TABLE,
        names.LEDGER,
        {
            "endpoint_type": "database",
            **partners.database_properties(),
            "password": partners.database_password(),
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
                "endpoint": _endpoint_named(ends[name]),
            },
        )


def _endpoint_named(name: str) -> Any:
    return lambda: Endpoint.objects.get(name=name)


def channel() -> Iterator[str]:
    """The channel with a target for each partner, once their queues are there."""
    row = PublishChannel.objects.filter(name=names.PURCHASE).first()
    if row is None:
        row = entered(
            ChannelForm,
            name=names.PURCHASE,
            description="Approved purchase orders, for whoever has to act on them",
            key_path="$.ponum",
            external_id_path="$.ponum",
            search_paths=["$.vendor"],
        )
        yield f"the channel {row}"
    for name, partner in names.TARGETS.items():
        system = ExternalSystem.objects.get(name=partner)
        if not ChannelTarget.objects.filter(channel=row, system=system).exists():
            queue = Queue.objects.get(name=name)
            entered(TargetForm, channel=row, system=system, queue=queue)
            yield f"the target {system} of {row}"
