"""Rates at which messages come and go, from the samples of the last minutes."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from django.db.models import QuerySet
from django.db.models.functions import Now

from integration.models import QueueSample
from integration.selectors.scope import EVERYTHING, Scope
from integration.store.samples import SAMPLE_SECONDS

MINUTE: Final = timedelta(minutes=1)
QUARTER: Final = timedelta(minutes=15)
HOUR: Final = timedelta(hours=1)
# Three samples missed: nothing is known of the time between, and nothing is made up.
GAP: Final = timedelta(seconds=3 * SAMPLE_SECONDS + 5)


@dataclass(frozen=True, slots=True)
class Point:
    """One sample of a queue."""

    at: datetime
    position: int
    end: int

    @property
    def lag(self) -> int:
        return max(0, self.end - self.position)


@dataclass(frozen=True, slots=True)
class Pace:
    """Messages a second that come in and that are settled."""

    incoming: float
    outgoing: float

    def eta(self, lag: int | None) -> timedelta | None:
        """Return how long until nothing waits, at this pace; None for never, or when not known."""
        if lag is None:
            return None
        gain = self.outgoing - self.incoming
        if not lag:
            return timedelta()
        return timedelta(seconds=lag / gain) if gain > 0 else None


def traffic(pace: Pace | None) -> float:
    """Messages a second in and out together; 0 where nothing is known."""
    return 0.0 if pace is None else pace.incoming + pace.outgoing


@dataclass(frozen=True, slots=True)
class Rates:
    """The pace over the last minute and quarter of an hour, None where no samples tell it."""

    minute: Pace | None
    quarter: Pace | None

    @property
    def best(self) -> Pace | None:
        """The steadier one, for what is foretold."""
        return self.quarter or self.minute

    def eta(self, lag: int | None) -> timedelta | None:
        """Return how long until nothing waits; None when that is never, or not known."""
        return None if self.best is None else self.best.eta(lag)


def pace(points: Sequence[Point], within: timedelta) -> Pace | None:
    """The pace over the newest samples that cover `within`, up to the newest one.

    A gap counts neither as time nor as messages, nor does a step back: the topic was made anew.
    """
    if not points:
        return None
    since = points[-1].at - within - timedelta(seconds=SAMPLE_SECONDS / 2)
    steps = [(a, b) for a, b in pairwise(points) if a.at >= since and _is_known(a, b)]
    seconds = sum((b.at - a.at).total_seconds() for a, b in steps)
    if not seconds:
        return None
    return Pace(
        incoming=sum(b.end - a.end for a, b in steps) / seconds,
        outgoing=sum(b.position - a.position for a, b in steps) / seconds,
    )


def pieces(points: Sequence[Point]) -> Iterator[list[Point]]:
    """The samples as unbroken lines: a new one begins after each gap."""
    piece: list[Point] = []
    for point in points:
        if piece and point.at - piece[-1].at > GAP:
            yield piece
            piece = []
        piece.append(point)
    if piece:
        yield piece


def rates(points: Sequence[Point]) -> Rates:
    return Rates(pace(points, MINUTE), pace(points, QUARTER))


def samples(queue_ids: Collection[int], within: timedelta) -> Mapping[int, Sequence[Point]]:
    """The samples of these queues since then, oldest first, in one query.

    Bounded by the statement's time: only what is the same for all rows can be looked up by index.
    """
    if not queue_ids:
        return {}
    return _points(QueueSample.objects.filter(queue__in=list(queue_ids), at__gt=Now() - within))


def last_minute(scope: Scope = EVERYTHING) -> dict[int, Pace]:
    """Map queues to the last minute's pace, all that a person may know of, in one query."""
    rows = QueueSample.objects.filter(at__gt=Now() - MINUTE - GAP)
    if not scope.is_whole:
        rows = rows.filter(scope.within("queue__system"))
    paces = {queue_id: pace(points, MINUTE) for queue_id, points in _points(rows).items()}
    return {queue_id: one for queue_id, one in paces.items() if one is not None}


def _points(rows: QuerySet[QueueSample]) -> Mapping[int, Sequence[Point]]:
    points: dict[int, list[Point]] = defaultdict(list)
    columns = rows.order_by("queue_id", "at").values_list("queue_id", "at", "position", "end")
    for queue_id, at, position, end in columns:
        points[queue_id].append(Point(at, position, end))
    return points


def together(paces: Collection[Pace]) -> Pace | None:
    """The sum of them; None when nothing is known of any."""
    if not paces:
        return None
    return Pace(sum(one.incoming for one in paces), sum(one.outgoing for one in paces))


def _is_known(before: Point, after: Point) -> bool:
    is_whole = after.at - before.at <= GAP
    return is_whole and after.end >= before.end and after.position >= before.position
