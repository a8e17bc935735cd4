"""The sample's configuration: partners with their topics, queues, services and structures."""

from collections.abc import Iterator
from typing import Any, Final

from console.setup.services import ServiceForm
from console.setup.structures import StructureForm
from console.setup.systems import SystemForm
from integration.models import EnterpriseService, ExternalSystem, ObjectStructure, Queue
from sample import names, outbound
from sample.entering import entered, entered_cluster, entered_queue

MAINTENANCE_PARTITIONS: Final = 3

LOCATION_SCHEMA: Final = {
    "type": "object",
    "required": ["location", "siteid", "type"],
    "properties": {
        "location": {"type": "string", "maxLength": 25},
        "siteid": {"type": "string", "maxLength": 8},
        "type": {"enum": ["OPERATING", "STOREROOM", "REPAIR"]},
        "area_sqm": {"type": "number", "minimum": 0},
    },
}
STRUCTURES: Final[tuple[dict[str, Any], ...]] = (
    {
        "name": names.ORDERS,
        "description": "Which revision of each purchase order was applied last",
        "key_paths": ["$.ponum"],
        "version_path": "$.revision",
    },
    {
        "name": names.LEVELS,
        "description": "Which level of each part came last, by depot",
        "key_paths": ["$.siteid", "$.itemnum"],
    },
    {
        "name": names.LOCATIONS,
        "description": "Buildings and rooms, as the ERP describes them",
        "key_paths": ["$.location", "$.siteid"],
        "json_schema": LOCATION_SCHEMA,
        "tombstone": ObjectStructure.Tombstone.DELETE,
    },
)
SYSTEMS: Final = (
    (names.SYSTEM, "The ERP of the maintenance department"),
    (names.DEPOT, "The depots' terminals: what lies where"),
    *outbound.DESCRIPTIONS.items(),
)
SERVICES: Final[tuple[tuple[str, str, dict[str, Any]], ...]] = (
    (names.ASSET, "Machines: created, moved, taken out of service", {}),
    (names.ORDER, "Purchase orders with their lines", {}),
    (names.METER, "Readings of running hours, pressure and temperature", {}),
    (names.LOCATION, "Buildings and rooms", {"structure": names.LOCATIONS}),
    (names.LEVEL, "How many of a part lie in a depot", {}),
    (
        names.INVENTORY,
        "Stock levels of the ERP; off until the stock-taking is over",
        {"enabled": False},
    ),
)


def plant() -> list[str]:
    """Make what is missing and return its names. Raises IntegrationError, ValidationError."""
    provider, done = entered_cluster(names.PROVIDER)
    made = [done] if done else []
    made += _records()
    for name, partitions, fields in _queues():
        topic = names.TOPICS[name]
        if not Queue.objects.filter(name=name).exists():
            system = ExternalSystem.objects.get(name=names.SENDERS[name])
            values = {key: value() if callable(value) else value for key, value in fields.items()}
            values |= {"name": name, "system": system, "partitions": partitions}
            entered_queue(provider, topic, **values)
            made.append(f"the queue {name} on the topic {topic}")
    made += outbound.channel()
    return made


def _records() -> Iterator[str]:
    yield from _systems()
    yield from outbound.endpoints()
    for fields in STRUCTURES:
        if not ObjectStructure.objects.filter(name=fields["name"]).exists():
            yield f"the object structure {entered(StructureForm, **fields)}"
    for interface, description, more in SERVICES:
        if EnterpriseService.objects.filter(interface=interface).exists():
            continue
        structure = ObjectStructure.objects.filter(name=more.get("structure")).first()
        about = {"interface": interface, "description": description, **more}
        row = entered(ServiceForm, **{**about, "structure": structure})
        yield f"the enterprise service {row}"


def _systems() -> Iterator[str]:
    for name, description in SYSTEMS:
        if not ExternalSystem.objects.filter(name=name).exists():
            yield f"the external system {entered(SystemForm, name=name, description=description)}"


def _queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Name, partitions and fields, in an order in which each finds what it needs."""
    yield from _sequential_queues()
    yield from _continuous_queues()
    yield (
        names.RECEIPTS,
        MAINTENANCE_PARTITIONS,
        {
            "description": "Confirmations of approved orders, for the ERP",
            "direction": Queue.Direction.OUTBOUND,
            "kind": Queue.Kind.CONTINUOUS,
        },
    )
    yield from outbound.queues()


def _sequential_queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield (
        names.ASSETS,
        1,
        {
            "description": "Assets in strict order: a failure stops what is behind it",
            "kind": Queue.Kind.SEQUENTIAL,
            "max_retries": 2,
            "retry_delay_seconds": 5,
        },
    )
    yield (
        names.ERRORS,
        1,
        {
            "description": "What the maintenance queue gave up, for people",
            "kind": Queue.Kind.SEQUENTIAL,
            "is_error_queue": True,
        },
    )


def _continuous_queues() -> Iterator[tuple[str, int, dict[str, Any]]]:
    yield (
        names.MAINTENANCE,
        MAINTENANCE_PARTITIONS,
        {
            "description": "Orders, meter readings and locations: failures wait, others go on",
            "kind": Queue.Kind.CONTINUOUS,
            "error_queue": lambda: Queue.objects.get(name=names.ERRORS),
            "max_retries": 3,
            "retry_delay_seconds": 8,
        },
    )
    yield (
        names.STOCK,
        1,
        {
            "description": "Stock levels of the depots, whose terminals have their moods",
            "kind": Queue.Kind.CONTINUOUS,
            "max_retries": 2,
            "retry_delay_seconds": 6,
            "crash_limit": 1,
        },
    )
