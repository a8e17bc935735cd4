"""Runs of bulk jobs: the list with the jobs there are, the page of one, its files and its verbs."""

from collections.abc import Callable
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.bulk.asking import hindrance
from console.bulk.rights import requested
from console.bulk.words import STATES, stages, summary, title_of
from console.layout import trail
from console.layout.access import Right, needs, scope_of
from console.layout.answers import actor_of, reason_of, see, tell_problem
from console.layout.context import live_seconds_of, refresh_of
from console.layout.reveals import may_reveal
from console.layout.standby import from_standby
from crontasks.bulk import deciding, storage
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from crontasks.bulk.masking import hands_out
from crontasks.definitions import registry
from integration.actions.configuration import Author
from integration.errors import IntegrationError
from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors import changes
from integration.selectors.bulk import runs
from integration.selectors.bulk.rejects import rejects
from integration.selectors.bulk.runs import ShownRun
from integration.selectors.failures.failures import Cursor
from integration.selectors.masking.errors import MaskedError
from spark_jobs.storage import is_object

LOG_LINES: Final = 40
GONE: Final = "There is no such job any more."
# The cron task that asks for a bulk job by schedule.
SCHEDULED: Final = "bulk_job"
Decide = Callable[[HttpRequest, BulkRun, Author], None]


@require_GET
@needs(Right.VIEW)
@from_standby
def run_list(request: HttpRequest) -> HttpResponse:
    """Runs, the newest first, and the catalogue of jobs."""
    job, state = request.GET.get("job", ""), request.GET.get("state", "")
    wanted = {
        "job": job if job in CATALOGUE else "",
        "state": state if state in set(BulkState) else "",
    }
    cursor = Cursor.read(request.GET.get("at", ""))
    page = runs.page(scope_of(request.user), wanted, cursor)
    context = {
        "page": page,
        "lines": [(one, title_of(one.run)) for one in page.runs],
        "wanted": wanted,
        "jobs": [(entry, hindrance(request, entry)) for entry in CATALOGUE.values()],
        "states": [(state.value, STATES[state][2]) for state in BulkState],
        "is_continued": cursor is not None,
        "api_query": urlencode({name: word for name, word in wanted.items() if word}),
    }
    return render(request, "console/bulk/list.html", context)


@require_GET
@needs(Right.VIEW)
def run_page(request: HttpRequest, bulk_run_id: UUID) -> HttpResponse:
    return _show(request, _wanted(request, bulk_run_id))


def _wanted(request: HttpRequest, run_id: UUID) -> ShownRun:
    """The run, if this person may know of all it concerns. Raises Http404."""
    shown = runs.one(run_id, scope_of(request.user))
    if shown is None:
        raise Http404("There is no such bulk run (any more).")
    return shown


def _show(request: HttpRequest, shown: ShownRun, *, status: int = 200) -> HttpResponse:
    """The page of a run, also as the answer to a verb that was not carried out."""
    run = shown.run
    entry = CATALOGUE.get(run.job)
    context = {
        "shown": shown,
        "run": run,
        "standing": shown.standing,
        "title": title_of(run),
        "entry": entry,
        "hindrance": hindrance(request, entry) if entry is not None else GONE,
        "summary": summary(shown),
        "stages": stages(shown),
        "rejects": rejects(run) if run.counts.get("rejected") else None,
        "requested": requested(run, request.user),
        "files": _files(run),
        "stored_at": place if is_object(place := str(run.facts.get("folder", ""))) else "",
        "log": "\n".join(run.log.splitlines()[-LOG_LINES:]),
        "history": changes.history_of("bulkrun", run.pk),
        "can_schedule": registry.get(SCHEDULED) is not None and scope_of(request.user).is_whole,
        "scheduled": SCHEDULED,
        "live_seconds": (live_seconds_of if shown.standing.is_open else refresh_of)(request),
    }
    return render(request, "console/bulk/run.html", context, status=status)


@require_GET
@needs(Right.VIEW, Right.VIEW_PAYLOAD)
def run_file(request: HttpRequest, bulk_run_id: UUID, file: str) -> FileResponse:
    """A file that the run wrote, as it is: never rendered by the browser."""
    shown = _wanted(request, bulk_run_id)
    if not may_reveal(request) and hands_out(shown.run.job, shown.run.parameters):
        raise PermissionDenied(str(MaskedError("this export")))
    try:
        path = storage.exported_file(shown.run.pk, file)
    except BulkError as problem:
        raise Http404("The run has no such file (any more).") from problem
    trail.note_download(request, "bulkrun", shown.run.pk, file)
    return FileResponse(
        path.open("rb"),
        as_attachment=True,
        filename=path.name,
        content_type="application/octet-stream",
    )


def _files(run: BulkRun) -> list[storage.Stored]:
    """No files where the folder cannot be looked at: the page shows the run all the same."""
    try:
        return storage.exported(run.pk)
    except (BulkError, OSError):
        return []


def _verb(act: Decide, done: str) -> Callable[[HttpRequest, UUID], HttpResponse]:
    """Make the view of a decision about a run: a POST to a small resource of its own."""

    @needs(Right.VIEW, Right.OPERATE)
    def view(request: HttpRequest, bulk_run_id: UUID) -> HttpResponse:
        shown = _wanted(request, bulk_run_id)
        if request.method != "POST":
            return see("bulk-run", bulk_run_id)
        entry = CATALOGUE.get(shown.run.job)
        if entry is not None and (why := hindrance(request, entry)):
            raise PermissionDenied(why)
        try:
            act(request, shown.run, Author(actor_of(request), reason_of(request)))
        except IntegrationError as problem:
            tell_problem(request, problem)
            return _show(request, _wanted(request, bulk_run_id), status=409)
        messages.success(request, done)
        return see("bulk-run", bulk_run_id)

    return view


cancel = _verb(
    lambda _, run, author: deciding.cancel_in_console(run, author),
    "It is being cancelled. What has not been committed counts nothing.",
)
again = _verb(
    lambda request, run, author: deciding.again_in_console(
        run, author, may_reveal=may_reveal(request)
    ),
    "It waits for the driver again, and goes on where it stopped.",
)
