"""What the page of one queue shows, put together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from django.utils import timezone

from console.layout.charts import WIDE, Chart, chart
from console.queues.cards import Card, card_of
from console.queues.figures import lag_line
from crontasks.health.live_processes import live_processes
from crontasks.models import CronInstance, CronRun
from crontasks.problems import switchboard
from integration.actions.blocks import GAP_CODE, TOPIC_CODES
from integration.selectors.delivering.outgoing import Outgoing, outgoing
from integration.selectors.queues import history as queue_history
from integration.selectors.queues import queues, rates
from integration.selectors.queues.history import Event
from integration.selectors.queues.queues import QueueDetail, Switch
from integration.selectors.queues.rates import HOUR, Point, Rates
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.unhandled import Untaken, unhandled
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
    incoming: float | None
    outgoing: float | None


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
        """Whether it grows by what would be written as more than nothing."""
        return self.growth is not None and self.growth >= LEAST_GROWTH


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """Everything the template needs; `hour` is there for queues that have a position."""

    detail: QueueDetail
    card: Card | None
    hour: Hour | None
    switches: tuple[Switch, ...]
    history: tuple[Event, ...]
    instance: CronInstance | None
    runs: tuple[CronRun, ...]
    topic_changed: bool
    outgoing: Outgoing | None
    has_open_gap: bool
    untaken: Untaken | None

    @property
    def row(self) -> QueueRow:
        return self.detail.row


def queue_page(name: str, scope: Scope, *, reveal: bool) -> QueuePage | None:
    """The queue of this name, or None where there is none that the person may know of."""
    found = queues.detail(name, live_processes(), scope)
    if found is None:
        return None
    row = found.row
    instance, runs = switchboard.last_runs(row.id, RUNS_SHOWN)
    return QueuePage(
        detail=found,
        card=card_of(row, reveal=reveal),
        hour=_hour(row) if row.is_read else None,
        switches=switchboard.switches(found.queue, found.switches),
        history=tuple(queue_history.history(row.id)),
        instance=instance,
        runs=runs,
        outgoing=outgoing(found.queue, reveal=reveal) if row.sends else None,
        untaken=unhandled([row]).get(row.id),
        topic_changed=bool(row.blocked_codes & TOPIC_CODES),
        has_open_gap=GAP_CODE in row.blocked_codes
        and any(gap.acknowledged_at is None for gap in found.gaps),
    )


def _hour(row: QueueRow) -> Hour:
    now = timezone.now()
    points = rates.samples([row.id], HOUR + rates.GAP).get(row.id, ())
    told = rates.rates(points)
    incoming, outgoing = _paces(points, "end"), _paces(points, "position")
    top = max((value for line in (incoming, outgoing) for _, value in line), default=0.0)
    return Hour(
        rates=told,
        eta=told.best.eta(row.lag) if told.best is not None else None,
        lag=lag_line(points, now, HOUR, WIDE),
        incoming=_pace_chart(incoming, now, "Coming in", top),
        outgoing=_pace_chart(outgoing, now, "Settled", top),
        moments=tuple(_moments(points)),
    )


def _paces(points: Sequence[Point], of: str) -> list[tuple[datetime, float]]:
    """Messages a second between each two samples; nothing over a gap or a step back."""
    found = []
    for before, after in pairwise(points):
        seconds = (after.at - before.at).total_seconds()
        count = getattr(after, of) - getattr(before, of)
        if after.at - before.at <= rates.GAP and count >= 0:
            found.append((after.at, count / seconds))
    return found


def _pace_chart(
    line: list[tuple[datetime, float]], now: datetime, what: str, top: float
) -> Chart | None:
    if not line:
        return None
    values = [value for _, value in line]
    mean = sum(values) / len(values)
    text = (
        f"{what} over the last hour: {mean:,.1f} a second on average, at most {max(values):,.1f}."
    )
    pieces: list[list[tuple[datetime, float]]] = [[line[0]]]
    for before, after in pairwise(line):
        if after[0] - before[0] > rates.GAP:
            pieces.append([])
        pieces[-1].append(after)
    return chart(pieces, until=now, within=HOUR, text=text, size=WIDE, highest=top)


def _moments(points: Sequence[Point]) -> list[Moment]:
    """The last sample of each five minutes with the pace since the one before."""
    last: dict[int, Point] = {}
    for point in points:
        last[int(point.at.timestamp() // STEP.total_seconds())] = point
    shown = list(last.values())
    found = []
    for place, point in enumerate(shown):
        begin = shown[place - 1].at if place else point.at - STEP
        within = [one for one in points if begin <= one.at <= point.at]
        pace = rates.pace(within, STEP)
        incoming = None if pace is None else pace.incoming
        outgoing = None if pace is None else pace.outgoing
        found.append(Moment(point.at, point.lag, incoming, outgoing))
    return found[::-1]
