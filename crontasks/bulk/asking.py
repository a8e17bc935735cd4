"""Asking for a run of a bulk job; everything it needs is fixed and stored before it starts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connections

from integration.clock import database_now
from integration.errors import IntegrationError
from integration.models import BulkRun, ObjectStructure, Queue
from integration.store.sessions import alias
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.problems import JobError


class BulkError(IntegrationError):
    """A run cannot be asked for; `job_code` says why."""

    code = "BULK_REFUSED"

    def __init__(self, problem: JobError) -> None:
        super().__init__(problem.text, next_step=problem.next_step)
        self.job_code = problem.code


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportWish:
    """What a person says of an import; `more` are the other fields of ImportParameters."""

    source: Path
    format: str
    structure: str
    rejects_queue: str
    columns: tuple[Mapping[str, Any], ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


def ask_import(wish: ImportWish, *, actor: str, reason: str = "") -> BulkRun:
    """Store a run of the job `import`, with its arrival number drawn. Raises BulkError."""
    structure = ObjectStructure.objects.filter(name=wish.structure).first()
    queue = Queue.objects.filter(name=wish.rejects_queue, direction="inbound").first()
    if structure is None:
        raise BulkError(_unknown("object structure", wish.structure))
    if queue is None:
        raise BulkError(_unknown("inbound queue", wish.rejects_queue))
    parameters = {
        "source": str(wish.source.absolute()),
        "format": wish.format,
        "structure": {
            "name": structure.name,
            "key_paths": structure.key_paths,
            "version_path": structure.version_path,
            "json_schema": structure.json_schema,
            "tombstone": structure.tombstone,
        },
        "arrival": _arrival(),
        "rejects_queue": queue.pk,
        "columns": list(wish.columns),
        **wish.more,
    }
    try:
        ImportParameters.of(parameters)
    except JobError as e:
        raise BulkError(e) from e
    return BulkRun.objects.create(
        job="import", parameters=parameters, actor=actor, reason=reason, asked_at=database_now()
    )


def cancel(run: UUID) -> bool:
    """Ask a run to stop; False when it has ended."""
    still = BulkRun.objects.filter(pk=run, state__in=["ASKED", "RUNNING"], applied=False)
    return bool(still.update(cancel_asked_at=database_now()))


def _arrival() -> int:
    with connections[alias()].cursor() as cursor:
        cursor.execute("SELECT nextval('integration_arrival')")
        return int(cursor.fetchone()[0])


def _unknown(what: str, name: str) -> JobError:
    code = f"UNKNOWN_{what.rsplit(maxsplit=1)[-1].upper()}"
    return JobError(code, f"There is no {what} {name!r}.", "Correct the name, or create it first.")
