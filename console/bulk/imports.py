"""The steps of an import: which file, into what, which column is what; then the look at it.

What was chosen stands in the address: each step can be opened again, shared, and gone back to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.bulk import columns, sources
from console.bulk.forms import JobRequestForm
from console.bulk.rights import shows_rows
from console.bulk.uploads import most_bytes
from console.forms.parameters import name_of
from crontasks import parameters
from crontasks.bulk import storage
from crontasks.bulk.asking import Asker, within
from crontasks.bulk.catalogue import CATALOGUE
from crontasks.bulk.errors import BulkError
from integration.selectors.bulk import structures
from spark_jobs.errors import JobError
from spark_jobs.imports.parameters import Column

ENTRY: Final = CATALOGUE["import"]
SOURCE, TARGET, COLUMNS, LOOK = "source", "target", "columns", "look"
TITLES: Final = {
    SOURCE: "File",
    TARGET: "Target",
    COLUMNS: "Columns",
    LOOK: "Look and confirm",
}
# These have a page of their own; all other fields stand on the page of the target.
OWN: Final = ("source", "columns")
UPLOADS_SHOWN: Final = 10
JobRequest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Line:
    """A column of the source in the form: its first values, and what it may become."""

    number: int
    column: str
    values: Sequence[str]
    becomes: Column
    is_mappable: bool


def step(
    request: HttpRequest,
    asker: Asker,
    job_request: JobRequest,
    *,
    problem: BulkError | None = None,
) -> HttpResponse:
    """The step that the address names, or the columns again after a look that was refused."""
    if request.method == "POST":
        return _columns(request, asker, job_request, problem=problem)
    said = {**_seeming(request, asker), **job_request, **_said(request)}
    if not said.get("source") or request.GET.get("step") == SOURCE:
        return _page(request, SOURCE, said, **_offered(asker))
    try:
        storage.source_inside(str(said["source"]), asker.folder)
    except BulkError as refusal:
        return _page(request, SOURCE, said, problem=refusal, **_offered(asker))
    if request.GET.get("step") != COLUMNS:
        return _target(request, asker, said)
    form = JobRequestForm(request.GET, entry=ENTRY, scope=asker.scope, stored=said, without=OWN)
    if not form.is_valid():
        return _page(request, TARGET, said, status=422, form=form)
    own = {name: said[name] for name in OWN if said.get(name)}
    return _columns(request, asker, {**form.job_request(), **own})


def mapped(request: HttpRequest, job_request: JobRequest) -> JobRequest:
    """The job request with the map as the form says it."""
    form = request.POST
    lines: list[Column] = []
    while (source := form.get(f"column-{len(lines)}")) is not None:
        number = len(lines)
        place, kind = form.get(f"place-{number}", ""), form.get(f"kind-{number}")
        is_required = f"required-{number}" in form
        lines.append(columns.mapped(source, place.strip(), kind, required=is_required))
    return {**job_request, "columns": columns.written(lines)} if lines else job_request


def stepper(job_request: JobRequest, current: str) -> list[tuple[str, str, str, bool]]:
    """Each step: title, address if one can go back to it, what was said, and if it is current."""
    made = {
        SOURCE: str(job_request.get("source") or ""),
        TARGET: str(job_request.get("structure") or job_request.get("queue") or ""),
    }
    names = list(TITLES)
    return [
        (
            title,
            _address(name, job_request) if place < names.index(current) else "",
            made.get(name, "") if name != current else "",
            name == current,
        )
        for place, (name, title) in enumerate(TITLES.items())
    ]


def _address(name: str, job_request: JobRequest) -> str:
    """The address of a step, with all that was said for it."""
    said = {"step": name, "source": job_request.get("source", "")}
    said |= {
        name_of(one): job_request[one.name]
        for one in parameters.describe(ENTRY.job_request)
        if one.name in job_request and one.name not in OWN
    }
    return f"{reverse('bulk-new', args=['import'])}?{urlencode(said)}"


def _said(request: HttpRequest) -> dict[str, Any]:
    """The part of the job request that the address says."""
    said: dict[str, Any] = {
        one.name: request.GET[name_of(one)]
        for one in parameters.describe(ENTRY.job_request)
        if name_of(one) in request.GET
    }
    source = request.GET.get("source", "").strip()
    return {**said, "source": source} if source else said


def _seeming(request: HttpRequest, asker: Asker) -> dict[str, str]:
    """Guesses about the file, where there is one that this person may read."""
    name = request.GET.get("source", "").strip()
    try:
        return sources.seeming(storage.source_inside(name, asker.folder))
    except (BulkError, JobError, OSError):
        return {}


def _offered(asker: Asker) -> dict[str, Any]:
    """The folder where files may lie, and the person's earlier uploads."""
    places = [] if asker.folder else settings.SLUICE_S3_PLACES
    if not storage.is_set():
        return {"has_root": False, "places": places}
    try:
        own = storage.listed(asker.uploads)[:UPLOADS_SHOWN]
    except OSError:
        own = []
    return {
        "has_root": True,
        "places": places,
        "most_bytes": most_bytes(),
        "own": [(f"{asker.uploads}/{one.name}", one) for one in own],
        "is_limited": not asker.scope.is_whole,
    }


def _target(
    request: HttpRequest, asker: Asker, said: JobRequest, *, problem: BulkError | None = None
) -> HttpResponse:
    form = JobRequestForm(entry=ENTRY, scope=asker.scope, stored=said, without=OWN)
    return _page(request, TARGET, said, problem=problem, form=form)


def _columns(
    request: HttpRequest, asker: Asker, job_request: JobRequest, *, problem: BulkError | None = None
) -> HttpResponse:
    """The map of the columns; where they cannot be read, the step before tells why."""
    try:
        there = sources.columns_of(within(ENTRY, job_request, asker))
    except BulkError as refusal:
        return _target(request, asker, job_request, problem=refusal)
    becomes = _becomes([one.name for one in there], job_request)
    is_shown = shows_rows(request, ENTRY, job_request)
    lines = [
        Line(
            number,
            one.name,
            one.values if is_shown else (),
            becomes[number],
            columns.may_be_mapped(one.name),
        )
        for number, one in enumerate(there)
    ]
    return _page(
        request,
        COLUMNS,
        job_request,
        problem=problem,
        lines=lines,
        kinds=columns.KINDS,
        job_request=json.dumps(job_request, ensure_ascii=False),
        sees_text=is_shown,
    )


def _becomes(names: Sequence[str], job_request: JobRequest) -> list[Column]:
    """The place that was said of each column before, else the one that its name suggests."""
    structure = structures.structure_named(str(job_request.get("structure") or ""))
    known = []
    if structure is not None:
        paths = [str(path) for path in structure.key_paths]
        known = columns.places(paths, structure.version_path, structure.json_schema)
    suggested = columns.suggest(names, known)
    if not job_request.get("columns"):
        return suggested
    before = columns.read(str(job_request["columns"]))
    return [before.get(one.source, columns.mapped(one.source, "", one.kind)) for one in suggested]


def _page(
    request: HttpRequest,
    name: str,
    said: JobRequest,
    *,
    problem: BulkError | None = None,
    status: int = 200,
    **more: Any,
) -> HttpResponse:
    context = {
        "entry": ENTRY,
        "source": said.get("source", ""),
        "requested": said,
        "problem": problem,
        "stepper": stepper(said, name),
        "again": request.GET.get("again", "")[:36],
        **more,
    }
    status = 422 if problem is not None else status
    return render(request, f"console/bulk/import_{name}.html", context, status=status)
