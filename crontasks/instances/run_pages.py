"""Runs as the console shows them: a page of one instance's, or one of them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Q

from crontasks.models import CronRun
from integration.selectors.scope import EVERYTHING, Scope

RUNS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs, newest first; `older` is the place the next page begins behind."""

    runs: tuple[CronRun, ...]
    older: str


def runs(instance_id: int, before: str = "") -> RunPage:
    """The newest runs of an instance, or those behind the place a page before ended at."""
    known = CronRun.objects.filter(instance=instance_id).order_by("-started_at", "-id")
    place = _place(before)
    if place is not None:
        at, number = place
        known = known.filter(Q(started_at__lt=at) | Q(started_at=at, pk__lt=number))
    rows = list(known[: RUNS_SHOWN + 1])
    last = rows[RUNS_SHOWN - 1] if len(rows) > RUNS_SHOWN else None
    older = f"{last.started_at.isoformat()}_{last.pk}" if last is not None else ""
    return RunPage(tuple(rows[:RUNS_SHOWN]), older)


def run(run_id: int, scope: Scope = EVERYTHING) -> CronRun | None:
    """One run; None when there is none, or none this scope may know of."""
    known = CronRun.objects.filter(scope.within("instance__queue__system"))
    return known.select_related("instance", "instance__queue").filter(pk=run_id).first()


def _place(text: str) -> tuple[datetime, int] | None:
    """Where a page ended; None for anything else: the list then begins at its start."""
    at, _, number = text.rpartition("_")
    try:
        moment = datetime.fromisoformat(at)
        return (moment, int(number)) if moment.tzinfo and len(number) < 19 else None
    except ValueError:
        return None
