"""Asking for a run of a bulk job: say what is wanted, look at what would happen, confirm.

What was said travels in the address or in the form, so that nothing is stored before somebody
confirms it, and every step works without JavaScript.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import uuid4

from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.bulk import imports
from console.bulk.forms import JobRequestForm
from console.bulk.rights import requested, shown_samples
from console.layout.access import Right, has, needs, scope_of
from console.layout.answers import actor_of, parse_id, reason_of, see
from console.layout.reveals import may_reveal
from crontasks.builtin.bulk_job import job_request_in
from crontasks.bulk import storage
from crontasks.bulk.asking import Asker, ask_in_console, preview_in_console, within
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.errors import BulkError
from crontasks.bulk.masking import refuse_agreement, scheduled_values
from crontasks.parameters import describe
from integration.plain import is_storable
from integration.selectors.bulk import runs

# A job request is a few names, a map and perhaps a recipe.
JOB_REQUEST_CHARACTERS: Final = 200_000
# What other pages fill in when they lead here; who asks sees it, and may change it.
NAMED_BY_LINKS: Final = frozenset({"queue", "into", "begin", "end"})


class BadJobRequestError(BadRequest):
    """The form does not carry a job request as this console writes it."""

    def __init__(self) -> None:
        super().__init__(
            "The form does not say what is asked for: its field “job_request” is missing or "
            "cannot be read. Go back to Bulk jobs and begin again."
        )


@needs(Right.VIEW, Right.OPERATE)
def new(request: HttpRequest, job: str) -> HttpResponse:
    """The form of a job; `?again=RUN` begins with the job request of that run."""
    entry = CATALOGUE.get(job)
    if entry is None:
        raise Http404("There is no such bulk job.")
    if why := hindrance(request, entry):
        raise PermissionDenied(why)
    if request.method != "POST":
        return _form(request, entry, _begun(request, entry))
    if "edit" in request.POST:
        return _form(request, entry, _carried(request))
    if "ask" in request.POST:
        return _ask(request, entry, _carried(request))
    if entry is imports.ENTRY:
        return _preview(request, entry, imports.mapped(request, _carried(request)))
    begun, scope = _begun(request, entry), scope_of(request.user)
    form = JobRequestForm(request.POST, entry=entry, scope=scope, stored=begun)
    if not form.is_valid():
        return _show_form(request, form, status=422)
    return _preview(request, entry, form.job_request())


def hindrance(request: HttpRequest, entry: Entry) -> str:
    """The reason why this person may not ask for the job, nor stop or repeat it; else empty."""
    if not (entry.queues or scope_of(request.user).is_whole):
        return "This job concerns all external systems, and you may know of some only."
    wanted = (Right.VIEW_PAYLOAD, Right.EDIT_PAYLOAD) if entry.edits else ()
    return next((one.missing for one in wanted if not has(request.user, one)), "")


def schedule_hindrance(request: HttpRequest, job: str, job_request: str) -> str:
    """The reason why this person may not have that job asked for by schedule; else empty.

    Its runs ask for nobody in particular, so it is judged when the parameters are said. What else
    is wrong with them comes out when it runs. Raises BulkError for a job request that cannot be
    read.
    """
    entry = CATALOGUE.get(job)
    if entry is None:
        return ""
    if why := hindrance(request, entry):
        return why
    asked = job_request_in(job_request)
    try:
        within(entry, asked, asker_of(request))
        if not may_reveal(request):
            refuse_agreement(job, asked)
    except BulkError as problem:
        return f"{problem.job_code}: {problem}"
    return ""


def schedule_note(parameters: Mapping[str, Any]) -> str:
    """What is to be known of a bulk job by schedule beside its parameters; else empty."""
    try:
        asked = job_request_in(str(parameters.get("job_request", "")))
    except BulkError:
        return ""
    return scheduled_values(str(parameters.get("job", "")), asked)


def asker_of(request: HttpRequest) -> Asker:
    uploads = storage.uploads_of(request.user.pk or 0)
    return Asker(
        name=actor_of(request),
        scope=scope_of(request.user),
        uploads=uploads,
        may_see=has(request.user, Right.VIEW_PAYLOAD),
        may_reveal=may_reveal(request),
    )


def _preview(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> HttpResponse:
    """A look at the rows that a run would meet, and the button that asks for it."""
    try:
        seen = preview_in_console(entry, job_request, asker_of(request))
    except BulkError as problem:
        return _form(request, entry, job_request, problem=problem)
    is_import = entry is imports.ENTRY
    samples, sees_text = shown_samples(request, entry, job_request, seen.samples)
    context = {
        "entry": entry,
        "preview": replace(seen, samples=samples),
        "good": sum(not one.code for one in seen.samples),
        "bad": sum(bool(one.code) for one in seen.samples),
        "sees_text": sees_text,
        "job_request": json.dumps(job_request, ensure_ascii=False),
        "run": uuid4(),
        "stepper": imports.stepper(job_request, imports.LOOK) if is_import else (),
    }
    return render(request, "console/bulk/preview.html", context)


def _ask(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> HttpResponse:
    # Drawn with the page: a second click asks for the same run.
    number = parse_id(request.POST.get("run", "")) or uuid4()
    asker, reason = asker_of(request), reason_of(request)
    try:
        run = ask_in_console(entry, job_request, asker, number=number, reason=reason)
    except BulkError as problem:
        return _form(request, entry, job_request, problem=problem)
    messages.success(request, "Asked for. The Spark driver takes it when it has ended what it has.")
    return see("bulk-run", run.pk)


def _form(
    request: HttpRequest,
    entry: Entry,
    job_request: Mapping[str, Any],
    *,
    problem: BulkError | None = None,
) -> HttpResponse:
    if entry is imports.ENTRY:
        return imports.step(request, asker_of(request), job_request, problem=problem)
    form = JobRequestForm(entry=entry, scope=scope_of(request.user), stored=job_request)
    return _show_form(request, form, problem=problem, status=422 if problem else 200)


def _show_form(
    request: HttpRequest, form: JobRequestForm, *, problem: BulkError | None = None, status: int
) -> HttpResponse:
    context = {"entry": form.entry, "form": form, "problem": problem}
    return render(request, "console/bulk/new.html", context, status=status)


def _begun(request: HttpRequest, entry: Entry) -> Mapping[str, Any]:
    """The job request that a form begins with: an earlier run's, or what a link names.

    Of an earlier run as far as this person may see it.
    """
    if "again" not in request.GET:
        if entry is imports.ENTRY:
            return {}  # its steps read the address themselves
        known = {one.name for one in describe(entry.job_request)} & NAMED_BY_LINKS
        return {name: request.GET[name] for name in known if name in request.GET}
    number = parse_id(request.GET.get("again", ""))
    shown = None if number is None else runs.one(number, scope_of(request.user))
    if shown is None or shown.run.job != entry.job:
        return {}
    return requested(shown.run, request.user).values


def _carried(request: HttpRequest) -> dict[str, Any]:
    """The job request in the form. Raises BadJobRequestError, answered with a 400."""
    text = request.POST.get("job_request", "")
    try:
        said = json.loads(text) if len(text) <= JOB_REQUEST_CHARACTERS else None
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict) or not all(map(_is_plain, (*said, *said.values()))):
        raise BadJobRequestError
    return said


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        # Shown again in the form, half of a character would spoil the page.
        return is_storable(value)
    return value is None or isinstance(value, int | float | bool)
