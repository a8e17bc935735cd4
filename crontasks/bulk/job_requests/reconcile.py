"""A reconciliation as a person asks for it."""

from dataclasses import dataclass
from typing import Any

from crontasks.bulk.errors import BulkError, unknown
from crontasks.bulk.storage import REPORTS, inside
from crontasks.parameters import option
from integration.models import Queue
from spark_jobs.problems import JobError
from spark_jobs.reconcile.parameters import ReconcileParameters
from spark_jobs.topics.planning import HOW

BEGIN = f"Where the range begins; empty = with the oldest message there is. {HOW}"
END = f"What it goes up to, without it; empty = what there is now. {HOW}"


@dataclass(frozen=True, kw_only=True)
class ReconcileRequest:
    """What a form, a command or a schedule says of a reconciliation."""

    queue: str = option(..., "The inbound queue whose topic is gone through.")
    begin: str = option("", BEGIN)
    end: str = option("", END)
    file: str = option(
        "",
        "A new file among the shared folder's reports for every offset that is named, one JSON "
        "object a line; empty = the first 1,000 in the run's facts.",
    )


def prepare(job_request: ReconcileRequest) -> dict[str, Any]:
    """What the job is told: names become what they stand for now.

    Raises BulkError for a name that nobody has and for a file that cannot be, JobError
    BAD_PARAMETERS.
    """
    queue = Queue.objects.filter(name=job_request.queue, direction="inbound").first()
    if queue is None:
        raise unknown("inbound queue", job_request.queue)
    parameters = {
        "provider": queue.provider_id,
        "queue": queue.pk,
        "topic": queue.topic,
        "begin": job_request.begin,
        "end": job_request.end,
        "file": new_file(job_request.file) if job_request.file else "",
    }
    ReconcileParameters.of(parameters)
    return parameters


def new_file(name: str) -> str:
    """The path of a file in the shared folder's `reports` that is not there yet.

    Raises BulkError NO_BULK_ROOT, OUTSIDE_FOLDER, FILE_EXISTS.
    """
    path = inside(name, REPORTS)
    # The job makes this folder, so that it belongs to whom the file does.
    is_there = path.parent == inside(REPORTS) or path.parent.is_dir()
    if path.exists() or not is_there:
        why = "is there already" if path.exists() else "lies in a folder that is not there"
        raise BulkError(
            JobError("FILE_EXISTS", f"{name} {why}.", "Name a new file in a folder that is there.")
        )
    return str(path)
