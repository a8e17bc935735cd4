"""Every read the console needs about cron tasks: instances, their next moments, their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Now
from django.utils import timezone

from crontasks import parameters
from crontasks.definitions import Definition, registry
from crontasks.errors import BadScheduleError
from crontasks.instances.actions import CONSUMERS
from crontasks.models import CronInstance, CronRun
from crontasks.outcome import BAD_ENDINGS, RunState
from crontasks.schedule.moments import Schedule, upcoming
from crontasks.schedule.words import in_words
from integration import durations
from integration.models import ConfigurationChange, PartitionLease
from integration.sealed import masked
from integration.selectors.scope import EVERYTHING, Scope

ROWS: Final = 100
RUNS_SHOWN: Final = 50
MOMENTS_SHOWN: Final = 5
# A tick takes some seconds on a busy worker; later than this, nobody acted upon the moment.
LATE_SECONDS: Final = 60
# The filters of the list: what they are called and which rows they keep.
STATES: Final = {
    "active": "Active",
    "paused": "Paused",
    "busy": "Running",
    "failed": "Last run failed",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """One configured schedule. `next_moments` is empty when it is not active or ends.

    `late_since` is the moment that has passed without anybody acting upon it. `is_consumer`: it
    belongs to a queue and lives and ends with it.
    """

    id: int
    name: str
    task: str
    title: str
    description: str
    queue: str
    schedule: str
    raw: str
    time_zone: str
    active: bool
    run_as: str
    with_rights: bool
    next_moments: tuple[datetime, ...]
    late_since: datetime | None
    is_busy: bool
    is_known: bool
    last_run: CronRun | None

    @property
    def next_moment(self) -> datetime | None:
        return self.next_moments[0] if self.next_moments else None

    @property
    def is_consumer(self) -> bool:
        return self.task in CONSUMERS


@dataclass(frozen=True, slots=True)
class InstancePage:
    """Instances by name; `after` is the name the next page begins behind, or empty."""

    rows: tuple[InstanceRow, ...]
    after: str


@dataclass(frozen=True, slots=True)
class InstanceFilter:
    """The filter of instances: by a part of the name or task, by one of STATES."""

    text: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """One parameter as it is set; a secret only as "set"."""

    label: str
    value: object
    text: str
    is_default: bool


@dataclass(frozen=True, slots=True)
class InstanceDetail:
    """One instance with what it is set to; `paused` tells who let it rest, when and why."""

    row: InstanceRow
    instance: CronInstance
    settings: tuple[Setting, ...]
    rules: tuple[tuple[str, str], ...]
    paused: ConfigurationChange | None


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest first; `older` is the place the next page begins behind."""

    runs: tuple[CronRun, ...]
    older: str


def instances(
    scope: Scope = EVERYTHING, filters: InstanceFilter | None = None, after: str = ""
) -> InstancePage:
    """A page of instances with their last runs, in two queries."""
    filters = filters or InstanceFilter()
    matching = list(_matching(_known(scope), filters).filter(name__gt=after)[: ROWS + 1])
    last = matching[ROWS - 1].name if len(matching) > ROWS else ""
    return InstancePage(_rows(matching[:ROWS]), last)


def of_task(task: str) -> tuple[InstanceRow, ...]:
    """Every instance of one cron task, in two queries."""
    return _rows(list(_known(EVERYTHING).filter(task=task)))


def instance(instance_id: int, scope: Scope = EVERYTHING) -> InstanceDetail | None:
    """One instance in three queries; None when there is none, or none this scope may know of."""
    one = _known(scope).filter(pk=instance_id).first()
    if one is None:
        return None
    rules = (
        ("If the previous run is still in progress", one.get_overlap_display()),
        ("If runs were missed", one.get_misfire_display()),
        ("Time limit", durations.written(one.timeout_seconds)),
        ("Runs kept", f"{one.keep_runs:,}"),
    )
    (row,) = _rows([one])
    return InstanceDetail(row, one, _settings(one), rules, _pausing(one))


def runs(instance_id: int, before: str = "") -> RunPage:
    """The newest runs of an instance, or those behind the place a page before ended at."""
    newest = CronRun.objects.filter(instance=instance_id).order_by("-started_at", "-id")
    place = place_in(before)
    if place is not None:
        at, number = place
        newest = newest.filter(Q(started_at__lt=at) | Q(started_at=at, pk__lt=number))
    rows = list(newest[: RUNS_SHOWN + 1])
    last = rows[RUNS_SHOWN - 1] if len(rows) > RUNS_SHOWN else None
    older = f"{last.started_at.isoformat()}_{last.pk}" if last is not None else ""
    return RunPage(tuple(rows[:RUNS_SHOWN]), older)


def run(run_id: int, scope: Scope = EVERYTHING) -> CronRun | None:
    """One run; None when there is none, or none this scope may know of."""
    rows = CronRun.objects.filter(scope.within("instance__queue__system"))
    return rows.select_related("instance", "instance__queue").filter(pk=run_id).first()


def tasks(scope: Scope = EVERYTHING) -> list[Definition]:
    """The cron tasks an instance may be made of; a queue's consumers come with the queue.

    None for people who may know of some systems only: such a task works for all of them.
    """
    return [d for d in registry if d.name not in CONSUMERS] if scope.is_whole else []


def names() -> list[str]:
    return list(CronInstance.objects.values_list("name", flat=True))


def _known(scope: Scope) -> QuerySet[CronInstance]:
    newest = CronRun.objects.filter(instance=OuterRef("pk")).order_by("-started_at", "-id")
    owned = PartitionLease.objects.filter(
        partition__queue=OuterRef("queue"),
        released_at__isnull=True,
        lease_until__gt=Now(),
        rescues=False,
    )
    return (
        CronInstance.objects.filter(scope.within("queue__system"))
        .select_related("queue", "run_as")
        .annotate(
            last_run_id=Subquery(newest.values("pk")[:1]),
            last_state=Subquery(newest.values("state")[:1]),
            is_reading=Exists(owned),
        )
    )


def _matching(rows: QuerySet[CronInstance], filters: InstanceFilter) -> QuerySet[CronInstance]:
    if filters.text:
        rows = rows.filter(Q(name__icontains=filters.text) | Q(task__icontains=filters.text))
    match filters.state:
        case "active" | "paused":
            return rows.filter(active=filters.state == "active")
        case "busy":
            return rows.filter(Q(last_state=RunState.RUNNING) | Q(is_reading=True))
        case "failed":
            return rows.filter(Q(last_state__in=BAD_ENDINGS))
        case _:
            return rows


def _rows(instances: Sequence[CronInstance]) -> tuple[InstanceRow, ...]:
    last_runs = CronRun.objects.in_bulk([_annotated(row, "last_run_id") for row in instances])
    now = timezone.now()
    return tuple(_row(row, last_runs.get(_annotated(row, "last_run_id")), now) for row in instances)


def _row(row: CronInstance, last_run: CronRun | None, now: datetime) -> InstanceRow:
    definition = registry.get(row.task)
    late_since: datetime | None = None
    moments: tuple[datetime, ...] = ()
    try:
        schedule = row.schedule()
        words = in_words(schedule)
        if row.active:
            moments = tuple(upcoming(schedule, now, MOMENTS_SHOWN))
            late_since = _late_since(row, schedule, now)
    except BadScheduleError as problem:
        words = problem.sentence
    return InstanceRow(
        id=row.pk,
        name=row.name,
        task=row.task,
        title=definition.title if definition else f"{row.task} (not installed)",
        description=definition.description if definition else "",
        queue=row.queue.name if row.queue else "",
        schedule=words,
        raw=row.crontab or f"{row.interval_seconds} s",
        time_zone=row.time_zone,
        active=row.active,
        run_as=row.run_as.get_username() if row.run_as else "",
        with_rights=row.with_rights,
        next_moments=moments,
        late_since=late_since,
        is_busy=_annotated(row, "last_state") == RunState.RUNNING or _annotated(row, "is_reading"),
        is_known=definition is not None,
        last_run=last_run,
    )


def _late_since(row: CronInstance, schedule: Schedule, now: datetime) -> datetime | None:
    """The first moment nobody acted upon; a queue that is switched off has nobody who should."""
    queue, acted = row.queue, row.last_scheduled_at
    if acted is None or (queue is not None and (queue.paused or not queue.enabled)):
        return None
    missed = next(schedule.following(acted), now)
    return missed if (now - missed).total_seconds() > LATE_SECONDS else None


def _settings(row: CronInstance) -> tuple[Setting, ...]:
    definition = registry.get(row.task)
    if definition is None:
        return tuple(
            Setting(name, value, "", is_default=False)
            for name, value in masked(row.parameters).items()
        )
    values: Mapping[str, Any] = masked(row.parameters)
    return tuple(
        Setting(p.label, _shown(values.get(p.name, p.default)), p.text, p.name not in values)
        for p in parameters.describe(definition.task.parameters)
    )


def _shown(value: object) -> object:
    """A value as pages show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else getattr(value, "value", value)


def _pausing(row: CronInstance) -> ConfigurationChange | None:
    if row.active:
        return None
    changes = ConfigurationChange.objects.filter(kind="croninstance", subject=str(row.pk))
    return changes.filter(after__active=False).order_by("-at", "-id").first()


def _annotated(row: CronInstance, name: str) -> Any:
    return getattr(row, name)


def place_in(text: str) -> tuple[datetime, int] | None:
    """Read where a page ended; None for anything else: the list then begins at its start."""
    at, _, number = text.rpartition("_")
    try:
        moment = datetime.fromisoformat(at)
        return (moment, int(number)) if moment.tzinfo and len(number) < 19 else None
    except ValueError:
        return None
