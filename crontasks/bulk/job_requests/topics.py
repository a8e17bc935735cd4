"""A reconciliation and a replay as a person asks for them: both read the topic of a queue."""

from dataclasses import asdict, dataclass
from typing import Any, Final

from crontasks.bulk.errors import BulkError, bad_job_request
from crontasks.bulk.job_requests.imports import (
    as_given,
    default_interface,
    inbound_queue,
    refuse_jms,
    structure_named,
    structure_of,
)
from crontasks.bulk.storage import REPORTS, inside
from crontasks.parameters import option
from integration.models import Queue
from spark_jobs.reconcile.parameters import ReconcileParameters
from spark_jobs.replay.parameters import Into, ReplayParameters
from spark_jobs.topics.planning import HOW

BEGIN: Final = f"Where the range begins; empty = with the oldest message there is. {HOW}"
END: Final = f"What it goes up to, without it; empty = what there is now. {HOW}"


@dataclass(frozen=True, kw_only=True)
class ReconcileRequest:
    """The fields of a reconciliation in a form, a command or a schedule."""

    queue: str = option(..., "The inbound queue whose topic is gone through.")
    begin: str = option("", BEGIN)
    end: str = option("", END)
    file: str = option(
        "",
        "A new file among the shared folder's reports for every offset that is named, one JSON "
        "object a line; empty = the first 1,000 in the run's facts.",
    )

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names become what they stand for now.

        Raises BulkError for a name that nobody has and for a file that cannot be, JobError
        BAD_PARAMETERS.
        """
        parameters = {
            **_range(inbound_queue(self.queue), self),
            "file": _new_file(self.file) if self.file else "",
        }
        ReconcileParameters.of(parameters)
        return parameters


@dataclass(frozen=True, kw_only=True)
class ReplayRequest:
    """The fields of a replay in a form, a command or a schedule."""

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

    def parameters(self) -> dict[str, Any]:
        """The job's parameters: names become what they stand for now.

        Raises BulkError for a name that nobody has, JobError BAD_PARAMETERS.
        """
        queue = inbound_queue(self.queue)
        if queue.is_error_queue:
            raise bad_job_request(
                f"{queue.name} is an error queue, and its records are copies of failures"
            )
        structure = None
        if self.into is Into.STRUCTURE:
            structure = asdict(structure_of(structure_named(self.target)))
        parameters = {
            **_range(queue, self),
            **as_given(self, "into", "target", "as_of"),
            "provider_name": queue.provider.name,
            "arrival": 0,
            "default_interface": default_interface(queue),
            "order_path": queue.order_path if queue.keeps_keys_in_order else "",
            "structure": structure,
            "chosen": as_given(self, "key", "header", "path", "interface"),
            "apply_as_newest": self.apply_as_newest.strip(),
        }
        # A driver of the release before takes a run that says nothing of these.
        if queue.retry_wrapper:
            parameters["retry_wrapper"] = True
        adopted = queue.partitions.filter(generation__gt=0)
        if generations := dict(adopted.values_list("partition", "generation")):
            parameters["generations"] = {str(at): number for at, number in generations.items()}
        ReplayParameters.of(parameters)
        return parameters


def _range(queue: Queue, job_request: ReconcileRequest | ReplayRequest) -> dict[str, Any]:
    """The queue's topic, and what part of it is meant. Raises BulkError QUEUE_AT_JMS."""
    refuse_jms(queue, "which keeps nothing that was read")
    return {
        "provider": queue.provider_id,
        "queue": queue.pk,
        "topic": queue.topic,
        **as_given(job_request, "begin", "end"),
    }


def _new_file(name: str) -> str:
    """The path of a file in the shared folder's `reports` that is not there yet.

    Raises BulkError NO_BULK_ROOT, OUTSIDE_FOLDER, FILE_EXISTS.
    """
    path = inside(name, REPORTS)
    # The job makes this folder, so that it belongs to whom the file does.
    is_there = path.parent == inside(REPORTS) or path.parent.is_dir()
    if path.exists() or not is_there:
        why = "is there already" if path.exists() else "lies in a folder that is not there"
        next_step = "Name a new file in a folder that is there."
        raise BulkError("FILE_EXISTS", f"{name} {why}.", next_step)
    return str(path)
