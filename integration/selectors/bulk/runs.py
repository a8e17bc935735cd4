"""Runs of bulk jobs as people see them: the list, one of them, and how far it is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q
from django.db.models.functions import Now

from integration.models import BulkRun
from integration.policy.states import BulkState
from integration.selectors.failures.failures import Cursor
from integration.selectors.scope import Scope, visible_runs

PAGE_ROWS: Final = 25
# The driver renews its lease by so much: it was heard of so long before the lease ends.
LEASE: Final = timedelta(seconds=30)
OPEN: Final = frozenset({BulkState.ASKED, BulkState.RUNNING})
# Of large plans and long logs the list needs nothing.
UNLISTED: Final = ("plan", "log", "parameters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The progress of a run by now, as far as anybody knows.

    `percent` and `total` are None where nothing says it. `rate` is in rows a second and
    `seconds_left` is of the stage under way, both at the pace of this start. A run is silent when
    its driver has let the lease run out: what is known then is from `heard_at`.
    """

    stage: str
    done: int
    total: int | None
    rows: int
    percent: int | None
    rate: float | None
    seconds_left: float | None
    heard_at: datetime | None
    is_silent: bool
    is_open: bool
    stages: tuple[str, ...] = ()

    @property
    def is_staged(self) -> bool:
        """Return whether all units of its stage are done."""
        return self.total is not None and self.done >= self.total


class Counts(NamedTuple):
    """Rows that were read, by what became of them; None where nothing was counted."""

    read: int | None = None
    sent: int | None = None
    rejected: int | None = None
    skipped: int | None = None

    @property
    def nowhere(self) -> int:
        """Rows that were read and are nowhere: 0 where the numbers add up."""
        return (self.read or 0) - sum(one or 0 for one in self[1:])


@dataclass(frozen=True, slots=True)
class ShownRun:
    """A run with how far it is. `is_planned`: what it reads is fixed."""

    run: BulkRun
    standing: Standing
    is_planned: bool = False

    @property
    def counts(self) -> Counts:
        return Counts(*(self.run.counts.get(name) for name in Counts._fields))


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, the newest first; `older` is a cursor or empty."""

    runs: Sequence[ShownRun]
    older: str


def page(scope: Scope, wanted: Mapping[str, str], cursor: Cursor | None = None) -> RunPage:
    """The list, in one query; two for people who are limited to some external systems.

    `wanted` names a job and a state; empty = all.
    """
    runs = BulkRun.objects.filter(visible_runs(scope)).defer(*UNLISTED).annotate(now=Now())
    runs = runs.filter(**{name: value for name, value in wanted.items() if value})
    if cursor is not None:
        before = Q(asked_at__lt=cursor.at) | Q(id__gt=cursor.row)
        runs = runs.filter(before, asked_at__lte=cursor.at)
    rows = list(runs.order_by("-asked_at", "id")[: PAGE_ROWS + 1])
    shown, has_older = rows[:PAGE_ROWS], len(rows) > PAGE_ROWS
    older = str(Cursor(shown[-1].asked_at, shown[-1].pk)) if has_older else ""
    return RunPage([ShownRun(run, standing(run, run.now)) for run in shown], older)


def one(run_id: UUID, scope: Scope) -> ShownRun | None:
    """A run, or None when there is none that the person may know of."""
    is_planned = ExpressionWrapper(~Q(plan={}), output_field=BooleanField())
    runs = BulkRun.objects.filter(visible_runs(scope)).defer("plan", "parameters")
    run = runs.annotate(now=Now(), is_planned=is_planned).filter(pk=run_id).first()
    return None if run is None else ShownRun(run, standing(run, run.now), run.is_planned)


def standing(run: BulkRun, now: datetime) -> Standing:
    """The progress of a run, from what its driver wrote last. Pure."""
    progress: Mapping[str, Any] = run.progress or {}
    is_running = run.state == BulkState.RUNNING
    # Units that need no work at all are no part of the bar: it would never fill up.
    total = progress["total"] - progress.get("skipped", 0) if "total" in progress else None
    done = progress.get("done", 0)
    rate, left = _pace(progress, done, total) if is_running else (None, None)
    is_silent = is_running and (run.lease_until is None or run.lease_until < now)
    return Standing(
        stage=str(progress.get("stage", "")),
        done=done,
        total=total,
        rows=progress.get("rows", 0),
        percent=_percent(run, progress, done, total),
        rate=rate,
        seconds_left=None if is_silent else left,
        heard_at=run.lease_until - LEASE if run.lease_until else None,
        is_silent=is_silent,
        is_open=run.state in OPEN,
        stages=tuple(progress.get("stages", ())),
    )


def _percent(run: BulkRun, progress: Mapping[str, Any], done: int, total: int | None) -> int | None:
    """Of the whole run: each stage that it names is as long a part of the way as another."""
    if run.state == BulkState.DONE:
        return 100
    if total is None or run.state == BulkState.ASKED:
        return None
    stages = list(progress.get("stages", ()))
    before = stages.index(progress["stage"]) if progress["stage"] in stages else 0
    of_stage = min(done / total, 1) if total else 1
    # All units are read before the commit that makes them count: only its end is the whole.
    return min(99, int(100 * (before + of_stage) / max(len(stages), 1)))


def _pace(
    progress: Mapping[str, Any], done: int, total: int | None
) -> tuple[float | None, float | None]:
    """Rows a second, and the seconds to go, since this start of the stage; None = not known."""
    if "since" not in progress or total is None:
        return None, None
    begun, at = (datetime.fromisoformat(progress[name]) for name in ("since", "at"))
    seconds = (at - begun).total_seconds()
    units = done - progress.get("done_before", 0)
    if seconds <= 0 or units <= 0:
        return None, None
    rows = progress.get("rows", 0) - progress.get("rows_before", 0)
    # Looking at files counts no rows.
    return rows / seconds or None, max(total - done, 0) * seconds / units
