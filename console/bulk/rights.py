"""The parts of a job request, and of the rows it is about, that a person may see.

A job request may hold a recipe or a filter with values of payloads in it: everybody sees what names
things, its texts only who may see payloads.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest

from console.layout import trail
from console.layout.access import Right, has
from console.layout.reveals import may_reveal
from crontasks.bulk import storage
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.masking import EXPORT
from crontasks.parameters import Described, describe
from integration.models import BulkRun
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.masking.rules import masks
from spark_jobs.contract import Sample

# Free texts that only name what is set up here, or how a file is written.
PLAIN: Final = frozenset(
    {"structure", "queue", "rejects_queue", "topic", "provider", "system", "service", "format"}
    | {"columns", "encoding", "delimiter", "into", "into_queue", "source", "target"}
    | {"begin", "end", "as_of"}
)
# The field of a repair that names a cause of failures.
CAUSE: Final = "cause"


@dataclass(frozen=True, slots=True)
class Requested:
    """The part of a job request that is shown to somebody; `is_cut` when not all of it may be.

    `facts` are labels and values as people read them.
    """

    values: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]
    is_cut: bool


def shows_rows(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> bool:
    """Return whether this person is shown the values of the rows that the job would read.

    Without the right to see payloads these are the rows of their own uploads, no more. That rows
    are shown is written down: a row of audit names the job and its files.
    """
    own = f"{storage.uploads_of(request.user.pk or 0)}/"
    files = [str(job_request.get(field) or "") for field in entry.files]
    are_own = bool(files) and all(one.startswith(own) for one in files)
    may_see = has(request.user, Right.VIEW_PAYLOAD)
    is_shown = are_own or (may_see and _sees_masked(request, entry, job_request))
    if is_shown:
        trail.note_view(request, "bulkpreview", entry.job, " ".join([entry.title, *files]))
    return is_shown


def shown_samples(
    request: HttpRequest, entry: Entry, job_request: Mapping[str, Any], samples: Sequence[Sample]
) -> tuple[list[Sample], bool]:
    """The rows of a preview, and whether their texts may be shown.

    Where they may not because of masking rules, neither may the keys by which they are called.
    Why a row of a file is bad may have a part of it.
    """
    sees = shows_rows(request, entry, job_request)
    if entry.files and not sees:
        return [replace(one, why="") for one in samples], sees
    if sees or _sees_masked(request, entry, job_request):
        return list(samples), sees
    return [replace(one, place=f"row {n}") for n, one in enumerate(samples, 1)], sees


def _sees_masked(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> bool:
    """Return whether nothing of the rows would be masked for this person.

    A preview reads rows of any queue, and shows them as the job would write them. Files that may
    hold true values of them are not read at all for who may not reveal.
    """
    if entry.files or may_reveal(request) or not masks().rules:
        return True
    # An export's rows are masked already, as its files would be.
    is_masked = not (job_request.get("unmasked") or job_request.get("into_queue"))
    return entry.job == EXPORT and is_masked


def requested(run: BulkRun, person: User | AnonymousUser) -> Requested:
    """The job request as this person may see it."""
    entry = CATALOGUE.get(run.job)
    if entry is None:
        return Requested({}, (), is_cut=False)
    sees_all = has(person, Right.VIEW_PAYLOAD) or has(person, Right.EDIT_PAYLOAD)
    fields = {one.name: one for one in describe(entry.job_request)}
    values = {
        name: _shown(name, value, entry)
        for name, value in run.job_request.items()
        if name in fields and (sees_all or _is_plain(fields[name], entry))
    }
    secret = {name for name, one in fields.items() if one.is_secret}
    facts = tuple(
        (fields[name].label, "set" if name in secret else str(value))
        for name, value in values.items()
        if value not in {None, ""}
    )
    kept = {name: value for name, value in values.items() if name not in secret}
    return Requested(kept, facts, is_cut=len(kept) < len(run.job_request))


def _shown(name: str, value: Any, entry: Entry) -> Any:
    if name in entry.files:
        return storage.shown(str(value))
    # A run of an earlier release may have a raw fingerprint.
    return cause_id(value) if name == CAUSE and isinstance(value, str) else value


def _is_plain(one: Described, entry: Entry) -> bool:
    is_named = one.name in PLAIN or one.name in entry.queues or one.name in entry.files
    return is_named or one.plain is not str
