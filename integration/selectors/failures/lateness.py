"""The check whether releasing a failure would put it behind what came after it, and what."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Q

from integration.codec import decode_headers
from integration.documents.structures import Plan, plan_for, version_of
from integration.envelope import Flaw
from integration.models import EnterpriseService, MessageError, Queue, QueuePartition, StoredObject
from integration.paths import BadPath, key_of
from integration.policy.failure import Failure
from integration.policy.states import Ended, ErrorState
from integration.registries.reading import reading_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """The newer thing: a stored document (`failure` is None), or a later failure that succeeded."""

    what: str
    at: datetime
    failure: UUID | None


def why_late(error: MessageError, queue: Queue, partition: QueuePartition | None) -> str | None:
    """Return one sentence, or None where a release keeps the order or the queue has none."""
    # Nothing of its key has passed what is parked.
    is_kept = error.parked_at is not None and error.order_key is not None
    if not queue.keeps_order or is_kept:
        return None
    if partition is None or partition.topic_uuid != error.topic_uuid:
        return (
            "The topic was created anew or lost its end since it failed; newer messages may be "
            "applied already."
        )
    if error.offset < partition.next_offset:
        return (
            f"The queue has moved on: it is at offset {partition.next_offset:,}, "
            f"and this message was at {error.offset:,}."
        )
    if error.expired_at is not None and queue.on_head_expired == Queue.OnHeadExpired.ADVANCE:
        return "Kafka no longer has this message; the queue continues without it."
    return None


def newer_data(error: MessageError) -> Newer | None:
    """Find what was applied to this message's key after it arrived, in at most three queries."""
    return _stored(error) or _resolved(error)


def _resolved(error: MessageError) -> Newer | None:
    """A later message of the same record key that failed as well, and has succeeded since.

    Where the order goes by a path of the document, it has the same key there, too.
    """
    if error.key is None or error.arrival_batch is None:
        return None
    same = Q(key=bytes(error.key))
    if error.queue.order_path:
        if error.order_key is None:
            return None
        # The record's key stays asked for: an index of closed failures has that one alone.
        same &= Q(order_key=bytes(error.order_key))
    later = Q(arrival_batch__gt=error.arrival_batch) | Q(
        arrival_batch=error.arrival_batch, arrival_index__gt=error.arrival_index
    )
    rows = (
        MessageError.objects.filter(
            later,
            same,
            queue=error.queue_id,
            state=ErrorState.RESOLVED,
            ended=Ended.APPLIED,
        )
        .order_by()
        .values_list("pk", "closed_at", "last_failed_at")
    )
    # Any one of them; `first()` would sort by the primary key, and the planner then walks along it.
    for pk, closed_at, last_failed_at in rows[:1]:
        what = "A later message with the same key failed too and has been applied since."
        return Newer(what=what, at=closed_at or last_failed_at, failure=pk)
    return None


def _stored(error: MessageError) -> Newer | None:
    """The document stored under this message's key, where it is the newer one."""
    service = (
        EnterpriseService.objects.select_related("structure")
        .filter(interface=error.interface, structure__isnull=False)
        .first()
    )
    if service is None or service.structure is None or error.arrival_batch is None:
        return None
    reading = reading_of(error.queue)
    document = reading(error.current_payload or b"", decode_headers(error.headers))
    if isinstance(document, Flaw | Failure):
        return None
    try:
        plan = plan_for(service.structure)
    except BadPath:
        return None
    key = key_of(plan.paths, document.body)
    if isinstance(key, Flaw):
        return None
    known = StoredObject.objects.without_documents()
    stored = known.filter(structure=service.structure, key=key).first()
    if stored is None or not _is_newer(stored, error, _version(plan, document.body)):
        return None
    deleted = " (a deletion)" if stored.is_deleted else ""
    what = f"{service.structure.name} holds newer data of this key{deleted}."
    return Newer(what=what, at=stored.updated_at, failure=None)


def _version(plan: Plan, body: object) -> Decimal | None:
    version = None if plan.version_path is None else version_of(plan.version_path.first(body))
    return version if isinstance(version, Decimal) else None


def _is_newer(stored: StoredObject, error: MessageError, version: Decimal | None) -> bool:
    """The one rule of newness, for a message that was not tried yet (store.objects.NEWER)."""
    if version is not None and stored.sort_version is not None and version != stored.sort_version:
        return stored.sort_version > version
    arrival = (error.arrival_batch or 0, error.arrival_index or 0)
    return (stored.arrival_batch, stored.arrival_index) > arrival
