"""Every read the console needs about cron tasks: instances, their next moments, their runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone

from crontasks.definitions import registry
from crontasks.errors import BadScheduleError
from crontasks.models import CronInstance, CronRun
from crontasks.outcome import RunState
from crontasks.schedule.moments import upcoming
from crontasks.schedule.words import in_words

RUNS_SHOWN: Final = 50
MOMENTS_SHOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRow:
    """One configured schedule. `next_moments` is empty when it is not active or ends."""

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
    next_moments: tuple[datetime, ...]
    is_busy: bool
    last_run: CronRun | None

    @property
    def next_moment(self) -> datetime | None:
        return self.next_moments[0] if self.next_moments else None


@dataclass(frozen=True, slots=True)
class InstanceDetail:
    """One instance with what it is set to and its last runs, newest first."""

    row: InstanceRow
    parameters: Mapping[str, object]
    rules: tuple[tuple[str, str], ...]
    runs: tuple[CronRun, ...]


def instances() -> list[InstanceRow]:
    """Every instance with its last run, in two queries."""
    last = CronRun.objects.order_by("instance_id", "-started_at", "-id").distinct("instance_id")
    runs = {run.instance_id: run for run in last}
    found = CronInstance.objects.select_related("queue", "run_as")
    return [_row(instance, runs.get(instance.pk)) for instance in found]


def instance(instance_id: int) -> InstanceDetail | None:
    """One instance in two queries, or None."""
    found = CronInstance.objects.select_related("queue", "run_as").filter(pk=instance_id).first()
    if found is None:
        return None
    runs = tuple(found.runs.all()[:RUNS_SHOWN])
    rules = (
        ("While one is at work", found.get_overlap_display()),
        ("Missed moments", found.get_misfire_display()),
        ("Time limit", f"{found.timeout_seconds:,} s"),
        ("Runs kept", f"{found.keep_runs:,}"),
    )
    return InstanceDetail(_row(found, runs[0] if runs else None), found.parameters, rules, runs)


def _row(found: CronInstance, last_run: CronRun | None) -> InstanceRow:
    definition = registry.get(found.task)
    now = timezone.now()
    try:
        schedule = found.schedule()
        words = in_words(schedule)
        moments = tuple(upcoming(schedule, now, MOMENTS_SHOWN)) if found.active else ()
    except BadScheduleError as problem:
        words, moments = problem.sentence, ()
    return InstanceRow(
        id=found.pk,
        name=found.name,
        task=found.task,
        title=definition.title if definition else f"{found.task} (not installed)",
        description=definition.description if definition else "",
        queue=found.queue.name if found.queue else "",
        schedule=words,
        raw=found.crontab or f"{found.interval_seconds} s",
        time_zone=found.time_zone,
        active=found.active,
        run_as=found.run_as.get_username() if found.run_as else "",
        next_moments=moments,
        is_busy=last_run is not None and last_run.state == RunState.RUNNING,
        last_run=last_run,
    )
