"""The bulk jobs there are, in the words of the people who start them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from crontasks.bulk.job_requests import archive, exports, imports, repairs, topics
from crontasks.parameters import Dataclass


class JobRequest(Dataclass, Protocol):
    """The request of a person for a job, typed as the parameters of a cron task are.

    Forms, commands and schedules are made from it.
    """

    def parameters(self) -> dict[str, Any]:
        """The job's parameters as JSON. Raises BulkError and JobError.

        Where the job reads or writes Kafka, they have the provider's id as `provider`; where it
        needs an arrival number, `arrival` is 0 and drawn when the run is stored.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A job of `spark_jobs`.

    `queues` are the fields of its job request that name queues, where these are all that a run
    concerns: people who may know of some external systems only may ask for no other job. `files`
    are those that name files to be read, `targets` folders of an object storage to be written to,
    `shared` those that name what belongs to all external systems: for people whom nothing limits.
    `edits` is whether the job changes payloads: it is for people who may see and change them by
    hand.
    """

    job: str
    title: str
    sentence: str
    job_request: type[JobRequest]
    queues: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    edits: bool = False


CATALOGUE: Final[Mapping[str, Entry]] = {
    entry.job: entry
    for entry in (
        Entry(
            job="import",
            title="Import",
            sentence="Rows of files become documents of a structure, or messages of a queue.",
            job_request=imports.ImportRequest,
            queues=("queue", "rejects_queue"),
            files=("source",),
            shared=("structure",),
        ),
        Entry(
            job="repair",
            title="Repair",
            sentence="One change is made in held failures, and they are released.",
            job_request=repairs.RepairRequest,
            edits=True,
        ),
        Entry(
            job="reconcile",
            title="Reconcile",
            sentence="Each offset of a topic is compared with what the database says became of it.",
            job_request=topics.ReconcileRequest,
            queues=("queue",),
        ),
        Entry(
            job="export",
            title="Export",
            sentence="Documents of a structure, or tracked messages, become files or messages.",
            job_request=exports.ExportRequest,
            targets=("to",),
        ),
        Entry(
            job="archive",
            title="Archive",
            sentence="What ended long ago is written to Parquet files by the day, then removed.",
            job_request=archive.ArchiveRequest,
            targets=("to",),
        ),
        Entry(
            job="replay",
            title="Replay",
            sentence="Messages of a topic are handed out again: to their queue, a topic, or a "
            "structure that is rebuilt.",
            job_request=topics.ReplayRequest,
        ),
    )
}
