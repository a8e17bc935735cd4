"""An import as a person asks for it, and what the names in job requests stand for.

The other jobs' requests look up their queues and structures here, too.
"""

from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.db.models import Model, QuerySet

from crontasks.bulk.errors import BulkError, bad_job_request, unknown
from crontasks.parameters import option
from integration.documents import structures
from integration.models import ExternalSystem, ObjectStructure, Queue
from spark_jobs.imports.parameters import (
    Column,
    ColumnKind,
    Duplicates,
    Format,
    ImportParameters,
    Structure,
)
from spark_jobs.storage import is_object, object_name
from spark_jobs.topics.target import Target

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """The fields of an import in a form, a command or a schedule."""

    source: str = option(
        ..., "A file, a folder, or a pattern such as /data/assets-*.csv or s3://bucket/in/*.csv."
    )
    format: Format = option(Format.CSV, "How the rows lie in the files.")
    record: str = option("", "Of XML files: the element that is one row, for example ASSET.")
    structure: str = option("", "The object structure that takes the rows; or name a queue.")
    queue: str = option("", "The inbound queue that takes the rows, as messages.")
    rejects_queue: str = option(..., "The inbound queue whose failures the rejected rows are.")
    columns: str = option(
        "",
        "Which column becomes which member, one a line: COLUMN=PLACE[:KIND][!]. Kinds: text, "
        "integer, number, boolean, date, json; ! = required. As in WEIGHT=facts.weight:number. "
        "Of XML, COLUMN is a path in the record: LOCATION/SITEID, @id.",
        lines=True,
    )
    duplicates: Duplicates = option(Duplicates.LAST, "Which of several rows with one key counts.")
    encoding: str = option("utf-8", "The encoding of CSV files.")
    delimiter: str = option(",", "What stands between the columns of CSV files.")

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names become what they stand for now.

        Raises BulkError for a name that nobody has, and REJECTS_ELSEWHERE; JobError BAD_PARAMETERS,
        UNKNOWN_FIELD.
        """
        if bool(self.structure) is bool(self.queue):
            raise bad_job_request("it names an object structure or a queue, and only one of them")
        queue = inbound_queue(self.queue) if self.queue else None
        if queue is not None:
            refuse_jms(queue, "to which nothing is written from here")
        parameters = ImportParameters(
            source=_whole_name(self.source),
            arrival=0,
            structure=self._structure(queue),
            target=None if queue is None else target_of(queue),
            provider=None if queue is None else queue.provider_id,
            rejects_queue=_rejects_queue(self.rejects_queue).pk,
            columns=tuple(column(line) for line in self.columns.splitlines() if line.strip()),
            **as_given(self, "format", "record", "duplicates", "encoding", "delimiter"),
        )
        parameters.check_request()
        return asdict(parameters)

    def _structure(self, queue: Queue | None) -> Structure | None:
        """The structure that is named, else that of the queue's service, if that has one."""
        if queue is None:
            return structure_of(structure_named(self.structure))
        service = queue.default_service
        structure = None if service is None else service.structure
        return None if structure is None else structure_of(structure)


def _whole_name(source: str) -> str:
    return object_name(source) if is_object(source) else str(Path(source).absolute())


def _rejects_queue(name: str) -> Queue:
    """A continuous queue: on one that keeps its order each release would come late."""
    queue = inbound_queue(name)
    if queue.keeps_order:
        raise BulkError(
            "REJECTS_ELSEWHERE",
            f"The queue {name} is sequential: rejects have no place in the order of its messages.",
            "Name a continuous queue whose service stores into the same structure.",
        )
    return queue


def column(line: str) -> Column:
    """One line of the map as the job reads it. Raises BulkError BAD_PARAMETERS."""
    source, sign, place = line.strip().partition("=")
    if not (source and sign and place):
        raise bad_job_request(f"{line!r} is not COLUMN=PLACE, as in SITE=siteid")
    target, _, kind = place.removesuffix("!").partition(":")
    try:
        known = ColumnKind(kind) if kind else None
    except ValueError as e:
        raise BulkError.of(ImportParameters.bad(str(e))) from e
    return Column(source=source, target=target, kind=known, required=place.endswith("!"))


def structure_named(name: str) -> ObjectStructure:
    """Raises BulkError UNKNOWN_STRUCTURE."""
    rows = ObjectStructure.objects.all()
    return _named(rows, name, "UNKNOWN_STRUCTURE", "object structure")


def inbound_queue(name: str) -> Queue:
    """A queue that is read here. Raises BulkError UNKNOWN_QUEUE."""
    rows = Queue.objects.filter(direction=Queue.Direction.INBOUND)
    related = rows.select_related("provider", "system", "default_service__structure")
    return _named(related, name, "UNKNOWN_QUEUE", "inbound queue")


def refuse_jms(queue: Queue, why: str) -> None:
    """Raises BulkError QUEUE_AT_JMS where the job needs a topic, and the queue has none."""
    if queue.provider.is_jms:
        raise BulkError(
            "QUEUE_AT_JMS",
            f"The queue {queue.name} reads from a JMS broker, {why}.",
            "Name a queue at Kafka.",
        )


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


def structure_of(row: structures.Structure) -> Structure:
    """The structure as jobs read it."""
    return Structure(**{one.name: getattr(row, one.name) for one in fields(Structure)})


def target_of(queue: Queue) -> Target:
    """The queue as jobs read it that write into it."""
    return Target(
        queue=queue.pk,
        topic=queue.topic,
        interface=default_interface(queue),
        sender="" if queue.system is None else queue.system.name,
        destination=str(settings.SLUICE_DEPLOYMENT),
        largest_bytes=queue.topic_max_bytes or 0,
    )


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
