"""Cron instances and their runs over HTTP: list, run now, pause, activate."""

from datetime import datetime
from typing import Any, Final, Literal

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from console.api.errors import BadInputError
from console.api.paging import in_range, no_place
from console.api.routes import Decision, acting, reading
from console.cron.pages import known_instance
from console.cron.rights import Judge
from console.layout.access import Right, require, scope_of
from console.layout.answers import actor_of
from crontasks.definitions import registry
from crontasks.instances import actions, selectors
from crontasks.instances.selectors import InstanceFilter, InstanceRow
from crontasks.models import CronRun
from integration.actions.configuration import Author
from integration.actions.errors import ReasonMissingError

router: Final = Router(tags=["cron"])
ONE: Final = "/cron/{int:instance_id}"
GONE: Final = "There is nothing of this number."
NO_PARAMETERS: Final = "This cron task is not installed here, or has no parameters."


class RunLine(Schema):
    """One run; `counts` is what it did."""

    id: int
    scheduled_at: datetime | None
    started_at: datetime
    ended_at: datetime | None
    duration_seconds: float | None
    state: str
    ending: str
    counts: dict[str, Any]
    text: str
    node: str

    @classmethod
    def of(cls, run: CronRun) -> "RunLine":
        return cls.model_validate(run, from_attributes=True)


class RunDetail(RunLine):
    """One run with the end of its log."""

    instance: int
    log_excerpt: str


class InstanceLine(Schema):
    """One configured schedule. `next_moments` is empty where it is paused or ends."""

    id: int
    name: str
    task: str
    title: str
    queue: str
    schedule: str
    raw: str
    time_zone: str
    active: bool
    run_as: str
    with_rights: bool
    next_moments: list[datetime]
    late_since: datetime | None
    is_busy: bool
    is_known: bool
    last_run: RunLine | None

    @classmethod
    def of(cls, row: InstanceRow) -> "InstanceLine":
        own = {name: getattr(row, name) for name in cls.model_fields if name != "last_run"}
        return cls(**own, last_run=None if row.last_run is None else RunLine.of(row.last_run))


class InstancePage(Schema):
    """Instances by name; `next` is a value for `after`."""

    instances: list[InstanceLine]
    next: str | None


class RunPage(Schema):
    """Runs, the newest first; `next` is a value for `before`."""

    runs: list[RunLine]
    next: str | None


class InstanceFilters(Schema):
    """The filters of the console's list."""

    text: str = Field("", max_length=100, description="Part of the name or the task.")
    state: Literal["", "active", "paused", "busy", "failed"] = ""
    after: str = ""


class RunNow(Decision):
    """A run besides the schedule."""

    parameters: dict[str, Any] | None = Field(
        None, description="For this run only; needs the right configure. null: the stored ones."
    )


class Requested(Schema):
    """The run was requested; it appears among the runs once a worker has it."""

    instance: int
    said: str = "A worker starts within seconds."


@reading(router, "/cron", answer=InstancePage)
def list_instances(request: HttpRequest, filters: Query[InstanceFilters]) -> InstancePage:
    """Every instance, by name, 100 a page."""
    wanted = InstanceFilter(text=filters.text, state=filters.state)
    page = selectors.instances(scope_of(request.user), wanted, filters.after)
    lines = [InstanceLine.of(row) for row in page.rows]
    return InstancePage(instances=lines, next=page.after or None)


@reading(router, ONE, answer=InstanceLine)
def read_instance(request: HttpRequest, instance_id: int) -> InstanceLine:
    """One instance."""
    return InstanceLine.of(_known(request, instance_id))


@reading(router, f"{ONE}/runs", answer=RunPage)
def list_runs(request: HttpRequest, instance_id: int, before: str = "") -> RunPage:
    """The runs of an instance, 50 a page."""
    if before and selectors.place_in(before) is None:
        raise no_place("before")
    page = selectors.runs(_known(request, instance_id).id, before)
    return RunPage(runs=[RunLine.of(run) for run in page.runs], next=page.older or None)


@reading(router, "/cron/runs/{int:run_id}", answer=RunDetail)
def read_run(request: HttpRequest, run_id: int) -> RunDetail:
    """One run: what it did, and what it said."""
    run = selectors.run(in_range(run_id, GONE), scope_of(request.user))
    if run is None:
        raise Http404("There is no such run. Each instance keeps only its latest runs.")
    line = RunLine.of(run).model_dump()
    return RunDetail(**line, instance=run.instance_id, log_excerpt=run.log_excerpt)


@acting(router, "POST", f"{ONE}/runs", Right.VIEW, Right.OPERATE, answer=Requested, status=202)
def run_now(request: HttpRequest, instance_id: int, asked: RunNow) -> Requested:
    """Send a run to the workers, besides the schedule."""
    detail = known_instance(request, in_range(instance_id, GONE))
    row = detail.row
    if asked.parameters is not None:
        # They decide what a run does: whoever may not store them may not run them once either.
        require(request.user, Right.CONFIGURE)
        if not scope_of(request.user).is_whole or row.is_consumer or row.task not in _installed():
            raise BadInputError(NO_PARAMETERS)
        Judge(request).require(detail.instance, asked.parameters)
    author = Author(actor_of(request), asked.reason)
    actions.run_now(row.id, author, given=asked.parameters)
    return Requested(instance=row.id)


@acting(router, "POST", f"{ONE}/pauses", Right.VIEW, Right.OPERATE, answer=InstanceLine)
def pause_instance(request: HttpRequest, instance_id: int, why: Decision) -> InstanceLine:
    """Let the schedule rest; needs a reason. A run in progress finishes."""
    row = _known(request, instance_id)
    if not why.reason.strip():
        raise ReasonMissingError(action="pause a schedule")
    actions.switch(row.id, Author(actor_of(request), why.reason), active=False)
    return InstanceLine.of(_known(request, instance_id))


@acting(router, "POST", f"{ONE}/activations", Right.VIEW, Right.OPERATE, answer=InstanceLine)
def activate_instance(request: HttpRequest, instance_id: int, why: Decision) -> InstanceLine:
    """Let the schedule go on, counted from now."""
    row = _known(request, instance_id)
    actions.switch(row.id, Author(actor_of(request), why.reason), active=True)
    return InstanceLine.of(_known(request, instance_id))


def _installed() -> set[str]:
    return {definition.name for definition in registry}


def _known(request: HttpRequest, instance_id: int) -> InstanceRow:
    """Raises Http404."""
    return known_instance(request, in_range(instance_id, GONE)).row
