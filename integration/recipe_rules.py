"""The rules that changed messages are judged and written by, as they are configured now."""

import json
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from integration.codec import decode_headers
from integration.formats.port import no_registry
from integration.formats.schema import Registered, Schema
from integration.formats.wire import schema_id_of
from integration.models import EnterpriseService, ObjectStructure, Queue
from integration.policy.failure import Failure, FailureClass
from integration.recipe_use import Rules, Subject
from integration.registries.known import shelf_of
from integration.registries.schemas import schemas_for
from integration.store.operations import Content

Place = tuple[int, int]
"""A queue's number, and the id of a schema in the registry of its provider."""
Schemas = Mapping[Place, Schema | Failure]
Told = Registered | Failure
NO_SCHEMAS: Final[Schemas] = MappingProxyType({})


def rules_now(masked: Collection[int]) -> Rules:
    """Read the rules in three queries; `masked` are the queues with hidden values in payloads."""
    return Rules.of(structures_now(), defaults_now(), masked, wrapped_now())


def structures_now() -> dict[str, ObjectStructure]:
    """The structure that each service stores into, by the service's name."""
    services = EnterpriseService.objects.select_related("structure").exclude(structure=None)
    return {row.interface: row.structure for row in services if row.structure is not None}


def defaults_now() -> dict[int, str]:
    """The service that takes messages which name none, by queue."""
    named = Queue.objects.exclude(default_service=None)
    return dict(named.values_list("pk", "default_service__interface"))


def wrapped_now() -> list[int]:
    """The queues whose messages come in a retry wrapper."""
    return list(Queue.objects.filter(retry_wrapper=True).values_list("pk", flat=True))


def place_of(queue_id: int, record: bytes | None) -> Place | None:
    """Where the schema of a record is, whole or only its beginning; None for JSON and XML text."""
    schema_id = schema_id_of(record)
    return None if schema_id is None else (queue_id, schema_id)


def schemas_of(records: Iterable[tuple[int, bytes | None]]) -> Schemas:
    """Find what these records, each with its queue, were written by.

    It may ask registries, which takes seconds: no row should be locked meanwhile.
    """
    places = {place for one in records if (place := place_of(*one)) is not None}
    if not places:
        return NO_SCHEMAS
    return {place: _schema(queue, place[1]) for place, queue in _there(places)}


def registered_of(records: Iterable[tuple[int, bytes | None]]) -> Mapping[Place, Told]:
    """Find the same as it stands in the registries, for jobs that read where none can be asked."""
    places = {place for one in records if (place := place_of(*one)) is not None}
    return {place: _registered(queue, place[1]) for place, queue in _there(places)}


def away_in(schemas: Mapping[Place, Schema | Registered | Failure]) -> Failure | None:
    """The reason why one of these registries cannot be asked now, which is no message's fault."""
    failures = (one for one in schemas.values() if isinstance(one, Failure))
    return next((one for one in failures if one.kind is FailureClass.OUTAGE), None)


def subject_of(content: Content, schemas: Schemas = NO_SCHEMAS) -> Subject:
    """A failure's content as a recipe takes it."""
    headers = decode_headers(json.loads(content.headers))
    place = place_of(content.queue_id, content.record)
    schema = None if place is None else schemas.get(place)
    return Subject(content.queue_id, content.interface, content.record, headers, schema)


def _there(places: Collection[Place]) -> Iterable[tuple[Place, Queue]]:
    queues = Queue.objects.select_related("provider").in_bulk({queue for queue, _ in places})
    return [(place, queues[place[0]]) for place in sorted(places) if place[0] in queues]


def _registered(queue: Queue, schema_id: int) -> Told:
    shelf = shelf_of(queue.provider)
    return no_registry(queue.provider.name) if shelf is None else shelf.told(schema_id, queue.topic)


def _schema(queue: Queue, schema_id: int) -> Schema | Failure:
    schemas = schemas_for(queue.provider, queue.topic)
    return no_registry(queue.provider.name) if schemas is None else schemas.find(schema_id)
