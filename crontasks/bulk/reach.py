"""Whom a run concerns, and what of the shared folder it may read: judged for the person who asks.

The command line may name any file of its machine; the console names files of the folder alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crontasks.bulk.catalogue import Entry
from crontasks.bulk.errors import BulkError, unknown
from crontasks.bulk.storage import source_inside
from integration.models import Queue
from integration.selectors.scope import Scope
from spark_jobs.problems import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asker:
    """Who asks: the name for the history, what they may know of, and where their uploads lie."""

    name: str
    scope: Scope
    uploads: str

    @property
    def folder(self) -> str:
        """The part of the folder that they may read: people with limits only what is their own."""
        return "" if self.scope.is_whole else self.uploads


def may_ask(entry: Entry, scope: Scope) -> bool:
    """Whether this person may ask for the job at all."""
    return scope.is_whole or bool(entry.queues)


def queues_of(entry: Entry, job_request: Mapping[str, Any]) -> list[int]:
    """The numbers of the queues that a run would concern, as far as there are such queues."""
    names = {str(job_request[field]) for field in entry.queues if job_request.get(field)}
    return sorted(Queue.objects.filter(name__in=names).values_list("pk", flat=True))


def within(entry: Entry, job_request: Mapping[str, Any], asker: Asker) -> dict[str, Any]:
    """The job request with its files by their whole path.

    Raises BulkError OUT_OF_REACH, UNKNOWN_QUEUE for a queue that this person may not know of,
    OUTSIDE_FOLDER, TOO_MANY_FILES, NO_BULK_ROOT.
    """
    if not may_ask(entry, asker.scope):
        raise out_of_reach(entry)
    if not asker.scope.is_whole:
        _refuse_shared(entry, job_request)
    for field in entry.queues:
        _known(str(job_request.get(field) or ""), asker.scope)
    files = {
        field: str(source_inside(str(job_request[field]), asker.folder))
        for field in entry.files
        if job_request.get(field)
    }
    return {**job_request, **files}


def out_of_reach(entry: Entry) -> BulkError:
    """A job concerns more than this person may know of."""
    return BulkError(
        JobError(
            "OUT_OF_REACH",
            f"{entry.title} concerns all external systems, and you may know of some only.",
            "Ask somebody whom nothing limits.",
        )
    )


def _refuse_shared(entry: Entry, job_request: Mapping[str, Any]) -> None:
    """A queue of theirs beside it does not make what belongs to everybody theirs."""
    for field in entry.shared:
        if job_request.get(field):
            raise BulkError(
                JobError(
                    "OUT_OF_REACH",
                    f"The {field} {job_request[field]} belongs to all external systems, and you "
                    "may know of some only.",
                    "Name a queue of yours instead, or ask somebody whom nothing limits.",
                )
            )
    if not any(job_request.get(field) for field in entry.queues):
        raise out_of_reach(entry)


def _known(name: str, scope: Scope) -> None:
    """A queue that is out of scope is not there for this person."""
    if scope.is_whole or not name:
        return
    if not Queue.objects.filter(scope.within("system"), name=name).exists():
        raise unknown("inbound queue", name)
