"""A replay as a person asks for it."""

from dataclasses import dataclass
from typing import Any

from crontasks.bulk.errors import bad_job_request, unknown
from crontasks.bulk.job_requests.reconcile import BEGIN, END
from crontasks.parameters import option
from integration.models import ObjectStructure, Queue
from spark_jobs.replay.parameters import Into, ReplayParameters


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """What a form, a command or a schedule says of a replay."""

    queue: str = option(..., "The inbound queue whose topic is read.")
    into: Into = option(..., "Where its messages go: back to the queue, a topic, or a structure.")
    target: str = option("", "The topic or the empty structure that they go to.")
    begin: str = option("", BEGIN)
    end: str = option("", END)
    key: str = option("", "Only messages with this key.")
    header: str = option("", "Only messages with this header: NAME or NAME=VALUE.")
    path: str = option("", "Only messages that say so: a path, or PATH=VALUE as in $.site=BEDFORD.")
    interface: str = option("", "Only messages of this service.")
    as_of: str = option("", "A structure as it was at this time: 2026-01-31T08:00Z.")
    apply_as_newest: str = option(
        "", "Apply them as if they had come now, also where newer data is stored: say why."
    )


def prepare(job_request: ReplayRequest) -> dict[str, Any]:
    """What the job is told: names become what they stand for now.

    Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
    """
    queue = (
        Queue.objects.filter(name=job_request.queue, direction="inbound")
        .select_related("provider", "default_service")
        .first()
    )
    if queue is None:
        raise unknown("inbound queue", job_request.queue)
    if queue.is_error_queue:
        raise bad_job_request(
            f"{queue.name} is an error queue, and its records are copies of failures"
        )
    service = queue.default_service
    parameters = {
        "provider": queue.provider_id,
        "provider_name": queue.provider.name,
        "queue": queue.pk,
        "topic": queue.topic,
        "into": str(job_request.into),
        "arrival": 0,
        "default_interface": "" if service is None else service.interface,
        "target": job_request.target,
        "structure": _structure(job_request.target) if job_request.into is Into.STRUCTURE else None,
        "begin": job_request.begin,
        "end": job_request.end,
        "chosen": {
            "key": job_request.key,
            "header": job_request.header,
            "path": job_request.path,
            "interface": job_request.interface,
        },
        "apply_as_newest": job_request.apply_as_newest.strip(),
        "as_of": job_request.as_of,
    }
    ReplayParameters.of(parameters)
    return parameters


def _structure(name: str) -> dict[str, Any]:
    found = ObjectStructure.objects.filter(name=name).first()
    if found is None:
        raise unknown("object structure", name)
    return {
        "name": found.name,
        "key_paths": found.key_paths,
        "version_path": found.version_path,
        "json_schema": found.json_schema,
        "tombstone": found.tombstone,
    }
