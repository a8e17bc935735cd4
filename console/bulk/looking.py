"""What a run would meet, as its preview shows it: the first rows, and how many there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest

from console.layout import trail
from console.layout.access import Right, has, scope_of
from console.layout.answers import actor_of
from crontasks.builtin.bulk_job import job_request_in
from crontasks.bulk import deciding, uploads
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.errors import BulkError
from crontasks.bulk.reach import Asker, may_ask, within
from spark_jobs.contract import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """A preview. `rows` and `bytes` are estimates; None where nothing tells them.

    `sees_text` is whether this person may see what is in the rows.
    """

    samples: Sequence[Sample]
    rows: int | None
    bytes: int | None
    facts: Mapping[str, Any]
    sees_text: bool

    @property
    def good(self) -> int:
        return sum(not one.code for one in self.samples)

    @property
    def bad(self) -> int:
        return len(self.samples) - self.good


def hindrance(request: HttpRequest, entry: Entry) -> str:
    """Why this person may not ask for the job, nor stop or repeat it; empty when they may."""
    if not may_ask(entry, scope_of(request.user)):
        return "This job concerns all external systems, and you may know of some only."
    wanted = (Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD) if entry.edits else ()
    return next((one.missing for one in wanted if not has(request.user, one)), "")


def schedule_hindrance(request: HttpRequest, job: str, job_request: str) -> str:
    """Why this person may not have that job asked for by schedule; empty when they may.

    Its runs ask for nobody in particular, so it is judged when the parameters are said. What is
    wrong with them otherwise is told by the run.
    """
    entry = CATALOGUE.get(job)
    if entry is None:
        return ""
    if why := hindrance(request, entry):
        return why
    try:
        within(entry, job_request_in(job_request), asker_of(request))
    except BulkError as problem:
        return f"{problem.job_code}: {problem}"
    return ""


def asker_of(request: HttpRequest) -> Asker:
    """Who asks, as the domain is told."""
    return Asker(
        name=actor_of(request),
        scope=scope_of(request.user),
        uploads=uploads.folder_of(request.user.pk or 0),
    )


def looked_at(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> Looked:
    """Look, and write nothing. Raises BulkError."""
    asker = asker_of(request)
    found = deciding.look(entry.job, job_request, asker)
    return Looked(
        samples=found.samples,
        rows=found.rows,
        bytes=found.bytes,
        facts=found.facts,
        sees_text=sees_text(request, entry, job_request, asker),
    )


def sees_text(
    request: HttpRequest, entry: Entry, job_request: Mapping[str, Any], asker: Asker
) -> bool:
    """People without the right to see payloads see what they uploaded themselves, no more."""
    files = [str(job_request.get(field) or "") for field in entry.files]
    are_own = bool(files) and all(one.startswith(f"{asker.uploads}/") for one in files)
    return has(request.user, Right.VIEW_PAYLOAD) or are_own


def note_rows(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> None:
    """Rows of what the job would read are shown: a row of audit names the job and its files."""
    files = [str(job_request.get(field) or "") for field in entry.files]
    trail.note_view(request, "bulkpreview", entry.job, " ".join([entry.title, *files]))
