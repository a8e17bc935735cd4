"""The steps of an import: which file, into what, which column is what; then the look at it.

What was chosen stands in the address: each step can be opened again, shared, and gone back to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.bulk.forms import JobRequestForm, carried, job_request_of
from console.bulk.looking import asker_of, note_rows, sees_text
from console.forms.parameters import name_of
from console.layout.access import scope_of
from crontasks import parameters
from crontasks.bulk import detecting, mapping, storage, uploads
from crontasks.bulk.catalogue import CATALOGUE, Entry
from crontasks.bulk.errors import BulkError
from crontasks.bulk.reach import Asker, within
from crontasks.bulk.suggesting import Suggestion, places, suggest
from integration.selectors.bulk.choices import shape_of

IMPORT: Final = "import"
SOURCE, TARGET, COLUMNS, LOOK = "source", "target", "columns", "look"
TITLES: Final = {
    SOURCE: "File",
    TARGET: "Target",
    COLUMNS: "Columns",
    LOOK: "Look and confirm",
}
# These have a page of their own; all other fields stand on the page of the target.
OWN: Final = ("source", "columns")
PAGES: Final = {
    SOURCE: "console/bulk/import_source.html",
    TARGET: "console/bulk/import_target.html",
    COLUMNS: "console/bulk/import_columns.html",
}
UPLOADS_SHOWN: Final = 10


@dataclass(frozen=True, slots=True)
class Step:
    """A step as the page draws it; one without an address cannot be opened from here."""

    title: str
    address: str
    made: str
    is_current: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A column of the source in the form: its first values, and what it may become."""

    number: int
    column: str
    values: tuple[str, ...]
    becomes: Suggestion
    is_mappable: bool


def step(
    request: HttpRequest,
    entry: Entry,
    job_request: Mapping[str, Any],
    *,
    problem: BulkError | None = None,
) -> HttpResponse:
    """The step that the address names, or the columns again after a look that was refused."""
    if request.method == "POST":
        return _columns(request, entry, job_request, problem=problem)
    said = {**_seeming(request), **job_request, **_said(request, entry)}
    if not said.get("source") or request.GET.get("step") == SOURCE:
        return _page(request, SOURCE, said)
    try:
        storage.source_inside(str(said["source"]), asker_of(request).folder)
    except BulkError as refusal:
        return _page(request, SOURCE, said, problem=refusal)
    if request.GET.get("step") != COLUMNS:
        return _target(request, entry, said)
    form = JobRequestForm(
        request.GET, entry=entry, scope=scope_of(request.user), stored=said, without=OWN
    )
    if not form.is_valid():
        return _page(request, TARGET, said, status=422, more={"form": form})
    own = {name: said[name] for name in OWN if said.get(name)}
    return _columns(request, entry, {**form.job_request(), **own})


def mapped(request: HttpRequest) -> dict[str, Any]:
    """The job request with the map as the form says it. Raises BadJobRequestError."""
    job_request = job_request_of(request)
    found = []
    number = 0
    while f"column-{number}" in request.POST:
        said = {name: request.POST.get(f"{name}-{number}", "") for name in ("place", "kind")}
        found.append(
            Suggestion(
                column=request.POST[f"column-{number}"],
                place=said["place"].strip(),
                kind=said["kind"] or mapping.KINDS[0],
                required=f"required-{number}" in request.POST,
            )
        )
        number += 1
    return {**job_request, "columns": mapping.written(found)} if found else job_request


def stepper(job_request: Mapping[str, Any], current: str) -> list[Step]:
    """All steps; those before the current one can be gone back to."""
    made = {
        SOURCE: str(job_request.get("source") or ""),
        TARGET: str(job_request.get("structure") or job_request.get("queue") or ""),
    }
    names = list(TITLES)
    return [
        Step(
            title,
            _address(name, job_request) if names.index(name) < names.index(current) else "",
            made.get(name, "") if name != current else "",
            name == current,
        )
        for name, title in TITLES.items()
    ]


def _address(name: str, job_request: Mapping[str, Any]) -> str:
    """Where a step is, with all that was said for it."""
    said = {"step": name, "source": job_request.get("source", "")}
    said |= {
        name_of(one): job_request[one.name]
        for one in parameters.describe(CATALOGUE[IMPORT].job_request)
        if one.name in job_request and one.name not in OWN
    }
    return f"{reverse('bulk-new', args=['import'])}?{urlencode(said)}"


def _said(request: HttpRequest, entry: Entry) -> dict[str, Any]:
    """What the address says of the job request."""
    said: dict[str, Any] = {
        one.name: request.GET[name_of(one)]
        for one in parameters.describe(entry.job_request)
        if name_of(one) in request.GET
    }
    source = request.GET.get("source", "").strip()
    return {**said, "source": source} if source else said


def _seeming(request: HttpRequest) -> dict[str, Any]:
    """What the file seems to be, where there is one that this person may read."""
    name = request.GET.get("source", "").strip()
    try:
        found = detecting.seeming(storage.source_inside(name, asker_of(request).folder))
    except (BulkError, OSError):
        return {}
    return {"format": found.format, "encoding": found.encoding, "delimiter": found.delimiter}


def _target(
    request: HttpRequest,
    entry: Entry,
    said: Mapping[str, Any],
    *,
    problem: BulkError | None = None,
) -> HttpResponse:
    form = JobRequestForm(entry=entry, scope=scope_of(request.user), stored=said, without=OWN)
    return _page(request, TARGET, said, problem=problem, more={"form": form})


def _columns(
    request: HttpRequest,
    entry: Entry,
    job_request: Mapping[str, Any],
    *,
    problem: BulkError | None = None,
) -> HttpResponse:
    """The map of the columns; where they cannot be read, the step before tells why."""
    asker = asker_of(request)
    try:
        columns = detecting.columns_of(within(entry, job_request, asker))
    except BulkError as refusal:
        return _target(request, entry, job_request, problem=refusal)
    becomes = _becomes([one.name for one in columns], job_request)
    is_shown = sees_text(request, entry, job_request, asker)
    if is_shown:
        note_rows(request, entry, job_request)
    lines = [
        Line(
            number,
            one.name,
            one.values if is_shown else (),
            becomes[number],
            mapping.may_be_mapped(one.name),
        )
        for number, one in enumerate(columns)
    ]
    more = {
        "lines": lines,
        "kinds": mapping.KINDS,
        "job_request": carried(job_request),
        "sees_text": is_shown,
    }
    return _page(request, COLUMNS, job_request, problem=problem, more=more)


def _becomes(names: Sequence[str], job_request: Mapping[str, Any]) -> list[Suggestion]:
    """What was said of each column before, else what its name suggests."""
    shape = shape_of(str(job_request.get("structure") or ""))
    known = [] if shape is None else places(shape.key_paths, shape.version_path, shape.json_schema)
    suggested = suggest(names, known)
    if not job_request.get("columns"):
        return suggested
    before = mapping.read(str(job_request["columns"]))
    return [
        before.get(one.column, Suggestion(one.column, "", one.kind, required=False))
        for one in suggested
    ]


def _page(
    request: HttpRequest,
    name: str,
    job_request: Mapping[str, Any],
    *,
    problem: BulkError | None = None,
    status: int = 200,
    more: Mapping[str, object] | None = None,
) -> HttpResponse:
    context: dict[str, object] = {
        "entry": CATALOGUE[IMPORT],
        "source": job_request.get("source", ""),
        "requested": job_request,
        "problem": problem,
        "stepper": stepper(job_request, name),
        "again": request.GET.get("again", "")[:36],
        **(more or {}),
    }
    if name == SOURCE:
        context |= _sources(asker_of(request))
    status = 422 if problem is not None else status
    return render(request, PAGES[name], context, status=status)


def _sources(asker: Asker) -> dict[str, object]:
    """What the first step offers: where files may lie, and what was uploaded before."""
    if not storage.is_set():
        return {"has_root": False}
    try:
        own = storage.listed(asker.uploads)[:UPLOADS_SHOWN]
    except OSError:
        own = []
    return {
        "has_root": True,
        "most_bytes": uploads.most_bytes(),
        "own": [(f"{asker.uploads}/{one.name}", one) for one in own],
        "is_limited": not asker.scope.is_whole,
    }
