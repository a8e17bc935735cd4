"""Asking for a run of a bulk job: say what is wanted, look at what would happen, confirm.

What was said travels in the address or in the form, so that nothing is stored before somebody
confirms it, and every step works without JavaScript.
"""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from console.bulk import imports
from console.bulk.forms import JobRequestForm, carried, job_request_of, number_of_run, reason_of
from console.bulk.looking import asker_of, hindrance, looked_at, note_rows
from console.bulk.showing import requested
from console.layout.access import Right, needs, scope_of
from console.layout.answers import parse_id, see
from crontasks.bulk import deciding
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.errors import BulkError
from integration.selectors.bulk import runs

EDIT, ASK = "edit", "ask"


@needs(Right.VIEW, Right.OPERATE)
def new(request: HttpRequest, job: str) -> HttpResponse:
    """The form of a job; `?again=RUN` begins with the job request of that run."""
    entry = CATALOGUE.get(job)
    if entry is None:
        raise Http404("There is no such bulk job.")
    if why := hindrance(request, entry):
        raise PermissionDenied(why)
    begun = _begun(request, entry)
    if request.method != "POST":
        return _form(request, entry, begun)
    if EDIT in request.POST:
        return _form(request, entry, job_request_of(request))
    if ASK in request.POST:
        return _ask(request, entry, job_request_of(request))
    if job == imports.IMPORT:
        return preview(request, entry, imports.mapped(request))
    form = JobRequestForm(request.POST, entry=entry, scope=scope_of(request.user), stored=begun)
    if not form.is_valid():
        return show_form(request, form, status=422)
    return preview(request, entry, form.job_request())


def preview(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> HttpResponse:
    """What a run would meet, and the button that asks for it."""
    try:
        found = looked_at(request, entry, job_request)
    except BulkError as problem:
        return _form(request, entry, job_request, problem=problem)
    if found.sees_text:
        note_rows(request, entry, job_request)
    context = {
        "entry": entry,
        "found": found,
        "job_request": carried(job_request),
        "run": uuid4(),
        "stepper": imports.stepper(job_request, imports.LOOK)
        if entry.job == imports.IMPORT
        else (),
    }
    return render(request, "console/bulk/preview.html", context)


def _ask(request: HttpRequest, entry: Entry, job_request: Mapping[str, Any]) -> HttpResponse:
    try:
        run = deciding.ask_for(
            entry.job,
            job_request,
            asker_of(request),
            number=number_of_run(request),
            reason=reason_of(request),
        )
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
    if entry.job == imports.IMPORT:
        return imports.step(request, entry, job_request, problem=problem)
    form = JobRequestForm(entry=entry, scope=scope_of(request.user), stored=job_request)
    return show_form(request, form, problem=problem, status=422 if problem else 200)


def show_form(
    request: HttpRequest,
    form: JobRequestForm,
    *,
    problem: BulkError | None = None,
    status: int = 200,
) -> HttpResponse:
    context = {"entry": form.entry, "form": form, "problem": problem}
    return render(request, "console/bulk/new.html", context, status=status)


def _begun(request: HttpRequest, entry: Entry) -> Mapping[str, Any]:
    """The job request of an earlier run, as far as this person may see it; empty without one."""
    number = parse_id(request.GET.get("again", ""))
    found = None if number is None else runs.one(number, scope_of(request.user))
    if found is None or found.run.job != entry.job:
        return {}
    return requested(found.run, request.user).values
