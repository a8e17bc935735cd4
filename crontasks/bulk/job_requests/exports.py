"""An export as a person asks for it."""

from dataclasses import dataclass
from typing import Any

from crontasks.bulk import moments, storage
from crontasks.bulk.errors import bad_job_request, unknown
from crontasks.bulk.job_requests.imports import inbound, target_of
from crontasks.parameters import option
from integration.models import ExternalSystem, ObjectStructure, Queue
from integration.policy.states import Ended
from spark_jobs.exports.parameters import ExportParameters, Format, Formulas, What
from spark_jobs.exports.selecting import selection

FOLDER = "exports"
# What only one of the two has; said of the other it is a slip.
OF_DOCUMENTS = ("structure", "key", "where", "deleted")
OF_MESSAGES = ("queue", "system", "service", "state", "payload")


@dataclass(frozen=True, kw_only=True)
class ExportRequest:
    """What a form, a command or a schedule says of an export."""

    what: What = option(..., "Documents of an object structure, or tracked messages.")
    format: Format = option(Format.JSON_LINES, "How the rows are written.")
    structure: str = option("", "Documents: of this object structure.")
    key: str = option(
        "", "Documents: with such a key only; * stands for any characters, ? for one."
    )
    where: str = option(
        "", "Documents: with this value only, as PATH=VALUE, such as $.status=OPERATING."
    )
    deleted: bool = option(False, "Documents: deleted ones as well.")
    queue: str = option("", "Messages: of this queue.")
    system: str = option("", "Messages: of the queues of this external system.")
    service: str = option("", "Messages: of this service or channel.")
    state: str = option("", "Messages: that ended so, such as APPLIED or HOLD.")
    payload: bool = option(False, "Messages: with their payloads, where tracking kept them.")
    since: str = option("", "Changed or tried since: 2026-01-31T10:00Z, 2026-01-31, or 7 d ago.")
    until: str = option("", "Changed or tried before that; empty for messages is now.")
    columns: str = option(
        "",
        "The columns, one a line: NAME=FIELD or NAME=PATH, such as site=$.siteid or id=key. None: "
        "all fields; of documents as JSON lines the documents themselves.",
    )
    delimiter: str = option(",", "What stands between the columns of CSV files.")
    formulas: Formulas = option(
        Formulas.EXACT,
        "CSV values that spreadsheets run (= + - @ first): exact as they are, or quoted by '.",
    )
    into_queue: str = option("", "The inbound queue that takes the rows, as messages; none: files.")


def prepare(job_request: ExportRequest) -> dict[str, Any]:
    """What the job is told: names become what they stand for now, times what they mean now.

    Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
    """
    is_documents = job_request.what is What.DOCUMENTS
    for name in OF_MESSAGES if is_documents else OF_DOCUMENTS:
        if getattr(job_request, name):
            raise bad_job_request(f"{name} is not asked for {job_request.what}")
    at = moments.now()
    parameters = {
        "what": str(job_request.what),
        "format": str(job_request.format),
        "folder": "" if job_request.into_queue else str(storage.root() / FOLDER),
        "columns": [column(line) for line in job_request.columns.splitlines() if line.strip()],
        "since": moments.read("since", job_request.since, at),
        "until": moments.read("until", job_request.until, at),
        "delimiter": job_request.delimiter,
        "formulas": str(job_request.formulas),
        **_into(job_request.into_queue),
        **(_documents(job_request) if is_documents else _messages(job_request)),
    }
    if not (is_documents or parameters["until"]):
        parameters["until"] = at.isoformat()
    selection(ExportParameters.of(parameters))
    return parameters


def _into(name: str) -> dict[str, Any]:
    if not name:
        return {}
    queue = inbound(name)
    return {"target": target_of(queue), "provider": queue.provider_id}


def column(line: str) -> dict[str, str]:
    """One line of the columns as the job is told of it. Raises BulkError BAD_PARAMETERS."""
    name, found, source = line.strip().partition("=")
    if not (name.strip() and found and source.strip()):
        raise bad_job_request(f"{line!r} is not NAME=PATH, as in site=$.siteid")
    return {"name": name.strip(), "source": source.strip()}


def _documents(job_request: ExportRequest) -> dict[str, Any]:
    structure = ObjectStructure.objects.filter(name=job_request.structure).first()
    if structure is None:
        raise unknown("object structure", job_request.structure)
    path, found, value = job_request.where.partition("=")
    if job_request.where and not (path.strip() and found):
        raise bad_job_request(f"{job_request.where!r} is not PATH=VALUE, as in $.status=OPERATING")
    return {
        "structure": structure.pk,
        "structure_name": structure.name,
        "key": job_request.key,
        "where": [path.strip(), value.strip()] if job_request.where else None,
        "deleted": job_request.deleted,
    }


def _messages(job_request: ExportRequest) -> dict[str, Any]:
    if job_request.state and job_request.state not in set(Ended):
        raise bad_job_request(
            f"state is {job_request.state!r}, and should be one of {', '.join(Ended)}"
        )
    return {
        "queues": _queues(job_request),
        "service": job_request.service,
        "state": job_request.state,
        "payload": job_request.payload,
    }


def _queues(job_request: ExportRequest) -> list[int] | None:
    """The numbers of the queues; None for all, also those that were removed."""
    if not (job_request.queue or job_request.system):
        return None
    found = Queue.objects.all()
    if job_request.queue:
        if not found.filter(name=job_request.queue).exists():
            raise unknown("queue", job_request.queue)
        found = found.filter(name=job_request.queue)
    if job_request.system:
        if not ExternalSystem.objects.filter(name=job_request.system).exists():
            raise unknown("external system", job_request.system)
        found = found.filter(system__name=job_request.system)
    return sorted(found.values_list("pk", flat=True))
