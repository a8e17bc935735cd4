"""Bulk jobs over HTTP: what can be asked for, a look before, runs and decisions about them."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from ninja import Router, Schema
from pydantic import Field

from console.api.errors import BadInputError
from console.api.failure_filters import cursor_of
from console.api.routes import Decision, Given, Reason, acting, operation, reading
from console.bulk.asking import asker_of, hindrance
from console.bulk.rights import requested, shown_samples
from console.bulk.uploads import FIELD, stored
from console.layout.access import Right, scope_of
from console.layout.answers import actor_of
from console.layout.reveals import may_reveal
from crontasks.bulk import deciding
from crontasks.bulk.asking import ask_in_console, preview_in_console
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.parameters import describe
from integration.actions.configuration import Author
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.bulk import runs
from integration.selectors.bulk.runs import ShownRun

router: Final = Router(tags=["bulk"])
ONE: Final = "/bulk/runs/{uuid:bulk_run_id}"
_FORM: Final = {
    "type": "object",
    "required": [FIELD],
    "properties": {FIELD: {"type": "string", "format": "binary"}},
}
UPLOAD: Final = {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
Plain = str | int | float | bool | None


class JobField(Schema):
    """One field of a job request."""

    name: str
    label: str
    text: str
    is_secret: bool


class Job(Schema):
    """A bulk job; `hindrance` is why this person may not ask for it, else empty."""

    job: str
    title: str
    fields: list[JobField]
    hindrance: str


class Jobs(Schema):
    """The catalogue."""

    jobs: list[Job]


class JobRequest(Given):
    """What is asked of a job: its fields by name."""

    job: str
    job_request: dict[str, Plain]


class Ask(JobRequest):
    """A run; `id` is drawn by whoever asks, so that asking twice is one run."""

    id: UUID | None = None
    reason: Reason = ""


class SampleLine(Schema):
    """One of the first rows, and what would become of it; `text` is null for who may not see it."""

    place: str
    ends: str
    code: str
    why: str
    text: str | None


class Preview(Schema):
    """The rows that a run would meet; `rows` and `bytes` are estimates."""

    rows: int | None
    bytes: int | None
    columns: list[str]
    facts: dict[str, Any]
    samples: list[SampleLine]


class Uploaded(Schema):
    """Where an upload lies: the `source` of an import."""

    source: str


class BulkRunLine(Schema):
    """A run as a line of the list."""

    id: UUID
    job: str
    state: str
    actor: str
    reason: str
    asked_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    stage: str
    percent: int | None
    read: int | None
    sent: int | None
    rejected: int | None
    skipped: int | None

    @classmethod
    def of(cls, shown: ShownRun) -> "BulkRunLine":
        return cls(**_facts_of(shown))


class BulkRunDetail(BulkRunLine):
    """A run with what was asked for, as far as this person may see it, and why it failed."""

    job_request: dict[str, Any]
    is_cut: bool
    problem: list[str] | None = Field(description="Its code, a sentence, and the next step.")


class BulkRunPage(Schema):
    """Runs, the newest first; `next` is a value for `at`."""

    runs: list[BulkRunLine]
    next: str | None


def _facts_of(shown: ShownRun) -> dict[str, Any]:
    run, standing = shown.run, shown.standing
    own = ("job", "state", "actor", "reason", "asked_at", "started_at", "ended_at")
    return {
        "id": run.pk,
        **{name: getattr(run, name) for name in own},
        "stage": standing.stage,
        "percent": standing.percent,
        **shown.counts._asdict(),
    }


@reading(router, "/bulk/jobs", answer=Jobs)
def list_jobs(request: HttpRequest) -> Jobs:
    """The jobs there are, with the fields of their requests."""
    return Jobs(
        jobs=[
            Job(
                job=entry.job,
                title=entry.title,
                fields=[
                    JobField.model_validate(one, from_attributes=True)
                    for one in describe(entry.job_request)
                ],
                hindrance=hindrance(request, entry),
            )
            for entry in CATALOGUE.values()
        ]
    )


@reading(router, "/bulk/runs", answer=BulkRunPage)
def list_runs(
    request: HttpRequest, job: str = "", state: BulkState | None = None, at: str | None = None
) -> BulkRunPage:
    """Runs, the newest first."""
    if job and job not in CATALOGUE:
        raise BadInputError(f"There is no bulk job {job[:60]!r}.")
    wanted = {"job": job, "state": state.value if state else ""}
    page = runs.page(scope_of(request.user), wanted, cursor_of(at))
    return BulkRunPage(runs=[BulkRunLine.of(one) for one in page.runs], next=page.older or None)


@reading(router, ONE, answer=BulkRunDetail)
def read_run(request: HttpRequest, bulk_run_id: UUID) -> BulkRunDetail:
    """One run and how far it is."""
    return _detail(request, bulk_run_id)


@acting(router, "POST", "/bulk/runs", Right.VIEW, Right.OPERATE, answer=BulkRunDetail, status=201)
def ask_run(request: HttpRequest, ask: Ask) -> BulkRunDetail:
    """Ask for a run; the Spark driver takes it when it has ended what it has."""
    entry = _entry(request, ask.job)
    asker, number = asker_of(request), ask.id or uuid4()
    ask_in_console(entry, ask.job_request, asker, number=number, reason=ask.reason)
    return _detail(request, number)


@operation(router, "POST", "/bulk/previews", Right.VIEW, Right.OPERATE, answer=Preview)
def preview_run(request: HttpRequest, asked: JobRequest) -> Preview:
    """Look at the first rows that a run would meet; nothing is stored or written."""
    entry = _entry(request, asked.job)
    seen = preview_in_console(entry, asked.job_request, asker_of(request))
    shown, sees = shown_samples(request, entry, asked.job_request, seen.samples)
    samples = [
        SampleLine(**{**asdict(sample), "text": sample.text if sees else None}) for sample in shown
    ]
    return Preview(
        rows=seen.rows,
        bytes=seen.bytes,
        columns=list(seen.columns),
        facts=dict(seen.facts),
        samples=samples,
    )


@operation(
    router,
    "POST",
    "/bulk/uploads",
    *(Right.VIEW, Right.OPERATE),
    answer=Uploaded,
    status=201,
    requestBody=UPLOAD,
)
def upload_file(request: HttpRequest) -> Uploaded:
    """Store a file in the shared folder, for an import: the field “file” of a form."""
    return Uploaded(source=stored(request))


@acting(router, "POST", f"{ONE}/cancellations", Right.VIEW, Right.OPERATE, answer=BulkRunDetail)
def cancel_run(request: HttpRequest, bulk_run_id: UUID, why: Decision) -> BulkRunDetail:
    """Ask it to stop. What has not been committed counts nothing."""
    return _decided(request, bulk_run_id, deciding.cancel_in_console, why)


@acting(router, "POST", f"{ONE}/repetitions", Right.VIEW, Right.OPERATE, answer=BulkRunDetail)
def repeat_run(request: HttpRequest, bulk_run_id: UUID, why: Decision) -> BulkRunDetail:
    """Let a run that failed or was cancelled go on where it stopped."""
    act = partial(deciding.again_in_console, may_reveal=may_reveal(request))
    return _decided(request, bulk_run_id, act, why)


def _decided(
    request: HttpRequest, run_id: UUID, act: Callable[[BulkRun, Author], None], why: Decision
) -> BulkRunDetail:
    run = _wanted(request, run_id).run
    if run.job in CATALOGUE:
        _entry(request, run.job)
    act(run, Author(actor_of(request), why.reason))
    return _detail(request, run_id)


def _entry(request: HttpRequest, job: str) -> Entry:
    """The job, if this person may ask for it. Raises Http404, PermissionDenied."""
    entry = CATALOGUE.get(job)
    if entry is None:
        raise Http404(f"There is no bulk job {job[:60]!r}.")
    if why := hindrance(request, entry):
        raise PermissionDenied(why)
    return entry


def _wanted(request: HttpRequest, run_id: UUID) -> ShownRun:
    """The run, if this person may know of all it concerns. Raises Http404."""
    shown = runs.one(run_id, scope_of(request.user))
    if shown is None:
        raise Http404("There is no such bulk run (any more).")
    return shown


def _detail(request: HttpRequest, run_id: UUID) -> BulkRunDetail:
    shown = _wanted(request, run_id)
    asked = requested(shown.run, request.user)
    return BulkRunDetail(
        **_facts_of(shown),
        job_request=dict(asked.values),
        is_cut=asked.is_cut,
        problem=shown.run.problem,
    )
