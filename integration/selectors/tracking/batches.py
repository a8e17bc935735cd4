"""Walking through tracking by time: batch after batch, read as far as is asked for.

Only the first row of each COPY stands in the list of its queue, with the number of its rows; all
of them have its moment and its arrival number. So the list is read first, from one end of the
span, and then the rows of those batches by the summaries of arrival numbers (decision 0015).
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

# The finest step between two moments.
MICROSECOND: Final = timedelta(microseconds=1)
# So many stretches of arrival numbers are looked up; what lies between two of one is read as well.
FEW: Final = 64
# However few or many rows are asked for, the list is read in steps of so many.
LEAST: Final = 50
MOST: Final = 2_000
# The factor by which more of the list is read where the part before had nothing of the wanted.
LONGER: Final = 8
# Where it had something, so much more than it should take, and twice as much as before at least.
SURELY: Final = 1.5
DOUBLE: Final = 2
LONGEST: Final = 16_000
_LISTED: Final = """
SELECT listed.at::text, listed.batch_rows, listed.arrival_batch
FROM unnest(%(queues)s::bigint[]) q (id) CROSS JOIN LATERAL (
  SELECT t.at, t.batch_rows, t.arrival_batch FROM integration_messagetrack t
  WHERE t.batch_rows IS NOT NULL AND t.queue_id = q.id AND t.at >= %(begin)s AND t.at < %(end)s
  ORDER BY t.at {way} FETCH FIRST %(most)s ROWS WITH TIES
) listed ORDER BY listed.at {way} FETCH FIRST %(most)s ROWS WITH TIES
"""
_COUNTED: Final = """
SELECT coalesce(sum(counted.batch_rows), 0) FROM (
  SELECT listed.batch_rows FROM unnest(%(queues)s::bigint[]) q (id) CROSS JOIN LATERAL (
    SELECT t.batch_rows FROM integration_messagetrack t
    WHERE t.batch_rows IS NOT NULL AND t.queue_id = q.id AND t.at >= %(begin)s AND t.at < %(end)s
    LIMIT %(most)s
  ) listed LIMIT %(most)s
) counted
"""

Listed = tuple[str, int, int]
"""The moment of a batch as text, how many rows it has, and its arrival number.

Of thousands only the first and the last are asked for as moments.
"""
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """The span that is walked through: these queues from `begin` up to, and without, `end`."""

    queues: Sequence[int]
    begin: datetime
    end: datetime
    newest_first: bool = True

    @property
    def values(self) -> dict[str, Any]:
        return {"queues": list(self.queues), "begin": self.begin, "end": self.end}

    def beyond(self, moment: datetime) -> "Span":
        """Return what is left of it after all batches of a moment."""
        if self.newest_first:
            return replace(self, end=moment)
        return replace(self, begin=moment + MICROSECOND)

    def cut(self, length: timedelta) -> "Span":
        """Return as much of it as comes first."""
        if length >= self.end - self.begin:
            return self
        if self.newest_first:
            return replace(self, begin=self.end - length)
        return replace(self, end=self.begin + length)

    def without(self, first: "Span") -> "Span":
        """Return what is left of it after what was cut."""
        if self.newest_first:
            return replace(self, end=first.begin)
        return replace(self, begin=first.end)


@dataclass(frozen=True, slots=True)
class Part:
    """The next batches: conditions of which each of their rows meets one, and their values.

    Among these are the moments of the `first` and the `last` of them.
    """

    conditions: tuple[str, ...]
    values: Values

    def rows(self, columns: str, condition: str) -> str:
        """A query for these columns of the rows `t` that meet the condition as well."""
        return " UNION ALL ".join(
            f"SELECT {columns} FROM integration_messagetrack t WHERE {one} AND {condition}"
            for one in self.conditions
        )


@dataclass(slots=True)
class Walk:
    """The batches of a span in its order, until `rows` of their rows are what was asked for.

    Who walks says in `met` how many have been so far.
    """

    cursor: Any
    span: Span
    rows: int
    met: int = 0

    def parts(self) -> Iterator[Part]:
        """The first part has so many rows, if there are.

        What is asked for so rarely that the list is of no help is read in one go at the end.
        """
        rows = min(max(self.rows, LEAST), MOST)
        # As far as three steps come that meet nothing.
        steps = [min(longer * rows, LONGEST) for longer in (1, LONGER, LONGER * LONGER)]
        span, most, read = self.span, rows, 0
        began: datetime | None = None
        while True:
            near = span if began is None else span.cut(self._reach(span, began, most / read))
            listed = _listed(self.cursor, near, most)
            # Less than the list may do, unless little of what was read is what is asked for.
            is_much = not read or DOUBLE * self.met > self.rows
            enough = _enough(listed, rows) if is_much else len(listed)
            if listed:
                began = began or _moment(listed[0])
                yield _part(span, listed[:enough])
            if enough < len(listed):
                yield _part(span, listed[enough:])
            if len(listed) >= most:
                span = span.beyond(_moment(listed[-1]))
            elif near is span:
                return
            else:
                span = span.without(near)
            read += len(listed)
            if read >= sum(steps):
                break
            most = min(_longer(most, read, self.met / self.rows), steps[-1])
        yield _rest(span)

    def _reach(self, left: Span, began: datetime, longer: float) -> timedelta:
        """Return how far to look for so many times the batches that there were since it began.

        Else as many would be read of each queue, and most of them for nothing.
        """
        whole = self.span.end - self.span.begin
        edge = left.end if left.newest_first else left.begin
        covered = abs(edge - began) + MICROSECOND
        return whole * min(longer * (covered / whole), 1.0)


def beginning(cursor: Any, span: Span, rows: int) -> tuple[Part | None, bool]:
    """The first batches of the span that have so many rows, and whether it has no more of them."""
    listed = _listed(cursor, span, rows)
    if not listed:
        return None, True
    enough = _enough(listed, rows)
    return _part(span, listed[:enough]), enough == len(listed) < rows


def _longer(most: int, read: int, share: float) -> int:
    """Return how much of the list to read next, after that share of what was read was wanted."""
    if not share:
        return LONGER * most
    return max(DOUBLE * most, math.ceil(SURELY * read / share) - read)


def counted(cursor: Any, span: Span, most: int) -> int:
    """Count the span's rows; with more than `most` batches in it, something above `most`."""
    cursor.execute(_COUNTED, {**span.values, "most": most + 1})
    return int(cursor.fetchone()[0])


def _listed(cursor: Any, span: Span, most: int) -> list[Listed]:
    way = "DESC" if span.newest_first else "ASC"
    cursor.execute(_LISTED.format(way=way), {**span.values, "most": most})
    rows: list[Listed] = cursor.fetchall()
    return rows


def _enough(listed: Sequence[Listed], rows: int) -> int:
    """Count the batches it takes for so many rows, those of one moment together."""
    there, number = 0, 0
    while number < len(listed) and (there < rows or listed[number][0] == listed[number - 1][0]):
        there += listed[number][1]
        number += 1
    return number


def _rest(span: Span) -> Part:
    values = {**span.values, "first": span.begin, "last": span.end}
    return Part(("t.at >= %(begin)s AND t.at < %(end)s AND t.queue_id = ANY(%(queues)s)",), values)


def _part(span: Span, listed: Sequence[Listed]) -> Part:
    """Batches of one row are in the list themselves; the others are found by their numbers."""
    edges = (_moment(listed[0]), _moment(listed[-1]))
    values: dict[str, Any] = {**span.values, "first": min(edges), "last": max(edges)}
    # The time tells the days to look at, and batches with one number apart.
    within = "t.at BETWEEN %(first)s AND %(last)s AND t.queue_id = ANY(%(queues)s)"
    conditions = []
    if any(count == 1 for _, count, _ in listed):
        conditions.append(f"{within} AND t.batch_rows = 1")
    numbers = sorted({arrival for _, count, arrival in listed if count > 1})
    if numbers:
        among = []
        for place, (lowest, highest) in enumerate(_stretches(numbers)):
            values |= {f"lowest{place}": lowest, f"highest{place}": highest}
            among.append(f"t.arrival_batch BETWEEN %(lowest{place})s AND %(highest{place})s")
        larger = "t.batch_rows IS DISTINCT FROM 1"
        conditions.append(f"{within} AND {larger} AND ({' OR '.join(among)})")
    return Part(tuple(conditions), values)


def _moment(listed: Listed) -> datetime:
    return datetime.fromisoformat(listed[0])


def _stretches(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Cut into at most FEW stretches that hold all numbers, parted at the widest gaps."""
    gaps = [after - before for before, after in itertools.pairwise(numbers)]
    widest = sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True)[: FEW - 1]
    cuts = [0, *sorted(place + 1 for place in widest), len(numbers)]
    return [(numbers[begin], numbers[end - 1]) for begin, end in itertools.pairwise(cuts)]
