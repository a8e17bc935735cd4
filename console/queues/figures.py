"""A queue in a table: its row with rates, how long it will take, and a line of what waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from console.layout.charts import SPARK, Chart, chart
from integration.selectors.queues import rates
from integration.selectors.queues.rates import Point, Rates
from integration.selectors.queues.rows import QueueRow


@dataclass(frozen=True, slots=True)
class Figures:
    """One line of a table of queues. `eta` is None when it is never empty, or nobody knows."""

    queue: QueueRow
    rates: Rates
    eta: timedelta | None
    line: Chart | None


def figures(rows: Sequence[QueueRow], now: datetime) -> list[Figures]:
    """The rows with what the samples of the last quarter of an hour tell, in one query."""
    read = [row.id for row in rows if row.is_read]
    samples = rates.samples(read, rates.QUARTER + rates.GAP)
    return [_figures(row, samples, now) for row in rows]


def _figures(row: QueueRow, samples: Mapping[int, Sequence[Point]], now: datetime) -> Figures:
    points = samples.get(row.id, ())
    known = rates.rates(points)
    eta = None if row.is_least else known.eta(row.lag)
    return Figures(row, known, eta, lag_line(points, now, rates.QUARTER))


def lag_line(
    points: Sequence[Point],
    now: datetime,
    within: timedelta,
    size: tuple[int, int] = SPARK,
) -> Chart | None:
    """Draw the messages that waited as a line; where there are no samples it is broken."""
    if not points:
        return None
    lags = [point.lag for point in points]
    minutes = int(within.total_seconds() // 60)
    text = (
        f"Waiting over the last {minutes} minutes: from {lags[0]:,} to {lags[-1]:,}, "
        f"at most {max(lags):,}."
    )
    pieces = ([(one.at, float(one.lag)) for one in piece] for piece in rates.pieces(points))
    return chart(pieces, until=now, within=within, text=text, size=size)
