"""What the names and times in a job request stand for when it is made."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Model, QuerySet

from crontasks.bulk.errors import unknown
from integration.documents.structures import Structure
from integration.models import ExternalSystem, ObjectStructure, Queue
from spark_jobs.imports import parameters as imports

M = TypeVar("M", bound=Model)


def structure_named(name: str) -> ObjectStructure:
    """Raises BulkError UNKNOWN_STRUCTURE."""
    rows = ObjectStructure.objects.all()
    return _named(rows, name, "UNKNOWN_STRUCTURE", "object structure")


def inbound_queue(name: str) -> Queue:
    """A queue that is read here. Raises BulkError UNKNOWN_QUEUE."""
    rows = Queue.objects.filter(direction=Queue.Direction.INBOUND)
    related = rows.select_related("system", "default_service__structure")
    return _named(related, name, "UNKNOWN_QUEUE", "inbound queue")


def queues_of(*, queue: str, system: str) -> QuerySet[Queue]:
    """The queues of these names; an empty one limits nothing.

    Raises BulkError UNKNOWN_QUEUE, UNKNOWN_SYSTEM.
    """
    queues = Queue.objects.order_by("pk")
    if queue:
        queues = queues.filter(pk=_named(queues, queue, "UNKNOWN_QUEUE", "queue").pk)
    if system:
        systems = ExternalSystem.objects.all()
        queues = queues.filter(system=_named(systems, system, "UNKNOWN_SYSTEM", "external system"))
    return queues


def _named(rows: QuerySet[M], name: str, job_code: str, what: str) -> M:
    row = rows.filter(name=name).first()
    if row is None:
        raise unknown(job_code, what, name)
    return row


def structure_parameters(structure: Structure) -> dict[str, Any]:
    """The structure as jobs read it."""
    return {one.name: getattr(structure, one.name) for one in fields(imports.Structure)}


def target_parameters(queue: Queue) -> dict[str, Any]:
    """The queue as jobs read it that write into it, and its provider."""
    target = {
        "queue": queue.pk,
        "topic": queue.topic,
        "interface": default_interface(queue),
        "sender": "" if queue.system is None else queue.system.name,
        "destination": str(settings.SLUICE_DEPLOYMENT),
        "largest_bytes": queue.topic_max_bytes or 0,
    }
    return {"target": target, "provider": queue.provider_id}


def default_interface(queue: Queue) -> str:
    """The service that takes messages which name none; empty where there is none."""
    return "" if queue.default_service is None else queue.default_service.interface


def as_given(job_request: object, *names: str) -> dict[str, Any]:
    """The fields that a job is given as a person said them."""
    return {name: getattr(job_request, name) for name in names}


def moment(text: str) -> datetime | None:
    """The time that a text names, in UTC unless it says more; None if it names none."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
