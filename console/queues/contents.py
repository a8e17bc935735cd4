"""The contents of the page of one queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from django.utils import timezone

from console.layout.charts import WIDE, Chart, Line, chart
from console.queues.cards import card_of
from console.queues.figures import lag_line
from crontasks.health.live_processes import live_processes
from crontasks.problems import switchboard
from integration.actions.blocks import TOPIC_CODES
from integration.selectors.delivering.outgoing import outgoing
from integration.selectors.queues import history as queue_history
from integration.selectors.queues import queues, rates
from integration.selectors.queues.asked_stops import asked_stop
from integration.selectors.queues.rates import HOUR, Pace, Point, Rates
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.unhandled import unhandled
from integration.selectors.scope import Scope

RUNS_SHOWN: Final = 20
# The table under the charts: one line for so much time.
STEP: Final = timedelta(minutes=5)
# Messages a second; less is written as 0.0.
LEAST_GROWTH: Final = 0.05


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of the table under the charts."""

    at: datetime
    lag: int
    pace: Pace | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hour:
    """The last hour of a queue. `growth` is messages a second, negative while it empties."""

    rates: Rates
    eta: timedelta | None
    lag: Chart | None
    incoming: Chart | None
    outgoing: Chart | None
    moments: tuple[Moment, ...]

    @property
    def growth(self) -> float | None:
        pace = self.rates.best
        return None if pace is None else pace.incoming - pace.outgoing

    @property
    def grows(self) -> bool:
        """Return True when it grows by what would be written as more than nothing."""
        return self.growth is not None and self.growth >= LEAST_GROWTH


def queue_page(name: str, scope: Scope, *, reveal: bool) -> dict[str, Any] | None:
    """Gather the context of this queue's page; None where there is no queue in this scope.

    `hour` is there for queues that have a position.
    """
    detail = queues.detail(name, live_processes(), scope)
    if detail is None:
        return None
    row = detail.row
    instance, runs = switchboard.last_runs(row.id, RUNS_SHOWN)
    return {
        "detail": detail,
        "queue": row,
        "card": card_of(row, reveal=reveal),
        "hour": _hour(row) if row.is_read else None,
        "switches": switchboard.switches(detail.queue, detail.switches),
        "asked_stop": asked_stop(row),
        "history": queue_history.history(row.id, scope),
        "instance": instance,
        "runs": runs,
        "outgoing": outgoing(detail.queue, reveal=reveal) if row.sends else None,
        "untaken": unhandled([row]).get(row.id),
        "is_jms": detail.queue.provider.is_jms,
        "topic_changed": bool(row.blocked_codes & TOPIC_CODES),
    }


def _hour(row: QueueRow) -> Hour:
    now = timezone.now()
    points = rates.samples([row.id], HOUR + rates.GAP).get(row.id, ())
    known = rates.rates(points)
    incoming, outgoing = _paces(points, "end"), _paces(points, "position")
    top = max((value for line in (*incoming, *outgoing) for _, value in line), default=0.0)
    return Hour(
        rates=known,
        eta=None if row.is_least else known.eta(row.lag),
        lag=lag_line(points, now, HOUR, WIDE),
        incoming=_pace_chart(incoming, now, "Received", top),
        outgoing=_pace_chart(outgoing, now, "Settled", top),
        moments=tuple(_moments(points)),
    )


def _paces(points: Sequence[Point], of: str) -> list[Line]:
    """Messages a second between each two samples, in unbroken lines; nothing over a step back."""
    lines: list[Line] = []
    for piece in rates.pieces(points):
        line = []
        for before, after in pairwise(piece):
            count = getattr(after, of) - getattr(before, of)
            if count >= 0:
                line.append((after.at, count / (after.at - before.at).total_seconds()))
        lines.append(line)
    return lines


def _pace_chart(lines: Sequence[Line], now: datetime, what: str, top: float) -> Chart | None:
    values = [value for line in lines for _, value in line]
    if not values:
        return None
    mean = sum(values) / len(values)
    text = (
        f"{what} over the last hour: {mean:,.1f} a second on average, at most {max(values):,.1f}."
    )
    return chart(lines, until=now, within=HOUR, text=text, size=WIDE, highest=top)


def _moments(points: Sequence[Point]) -> list[Moment]:
    """The last sample of each five minutes with the pace since the one before."""
    last: dict[int, Point] = {}
    for point in points:
        last[int(point.at.timestamp() // STEP.total_seconds())] = point
    shown = list(last.values())
    moments = []
    for place, point in enumerate(shown):
        begin = shown[place - 1].at if place else point.at - STEP
        within = [one for one in points if begin <= one.at <= point.at]
        moments.append(Moment(point.at, point.lag, rates.pace(within, STEP)))
    return moments[::-1]
