"""The last day by the hour: failures by cause, messages in and out, and how long they took."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from integration.masking.mask import HIDDEN
from integration.models import Queue
from integration.policy.failure import cause_words
from integration.policy.states import Ended
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.plans import planned_anew
from integration.selectors.masking.rules import any_masked
from integration.selectors.scope import Scope
from integration.selectors.tracking import rows
from integration.store.reads import standby
from integration.store.sessions import fetch_all

# The last 24 by the clock, the last of them not over yet.
HOURS: Final = 24
HOUR: Final = timedelta(hours=1)
# So many causes have a line of their own; the others are counted together.
CAUSES: Final = 8
# The newest so many failures are looked at: after an import with a bad file there are many.
MOST_ROWS: Final = 50_000
# By the indexes of failures by time: what first failed within the day also last failed within it.
_COUNTED: Final = """
SELECT e.code, e.fingerprint, min(e.text),
  width_bucket(e.first_failed_at, %(begins)s::timestamptz[]), count(*)
FROM (
  SELECT f.code, f.fingerprint, f.text, f.first_failed_at FROM integration_messageerror f
  WHERE f.last_failed_at >= %(since)s::timestamptz{queues}
  ORDER BY f.last_failed_at DESC LIMIT %(most)s
) e WHERE e.first_failed_at >= %(since)s::timestamptz GROUP BY 1, 2, 4
"""
_LOOKED_AT: Final = """
SELECT count(*), EXISTS (SELECT FROM integration_maskingrule WHERE enabled) FROM (
  SELECT 1 FROM integration_messageerror f
  WHERE f.last_failed_at >= %(since)s::timestamptz{queues} LIMIT %(most)s + 1
) few
"""
# How a queue stood at the end of each hour is what its last sample before says, if there is one
# within the hour; what happened between is the difference. A step back is a topic made anew.
_STEPS: Final = """
WITH edges AS (
  SELECT at, number FROM unnest(%(edges)s::timestamptz[]) WITH ORDINALITY AS e (at, number)
), stood AS (
  SELECT q.id, e.number, s.position, s."end"
  FROM unnest(%(queues)s::bigint[]) q (id) CROSS JOIN edges e CROSS JOIN LATERAL (
    SELECT position, "end" FROM integration_queuesample
    WHERE queue_id = q.id AND at <= e.at AND at > e.at - interval '1 hour'
    ORDER BY at DESC LIMIT 1) s
), steps AS (
  SELECT id, number, position, "end", lag(number) OVER w AS before,
    position - lag(position) OVER w AS settled, "end" - lag("end") OVER w AS came
  FROM stood WINDOW w AS (PARTITION BY id ORDER BY number)
)
SELECT number, sum(greatest(came, 0))::bigint, sum(greatest(settled, 0))::bigint
FROM steps WHERE before = number - 1 GROUP BY number
"""
# Tracking is listed by the batch (decision 0017): of each batch its first message is looked at,
# which waited longest, and of many batches those spread over the hour.
# An hour is looked at in so many parts, each of them up to so many batches of all queues together.
PARTS: Final = 6
BATCHES: Final = 240
# The list of batches by queue and time; partitions of other days are not looked at.
_TOOK: Final = f"""
SELECT width_bucket(took.at, %(begins)s::timestamptz[]) AS hour, count(*),
  percentile_cont(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY took.seconds)
FROM generate_series(%(since)s::timestamptz, %(now)s::timestamptz, %(part)s::interval) p (at)
CROSS JOIN unnest(%(queues)s::bigint[]) q (id)
CROSS JOIN LATERAL (
  SELECT t.at, greatest(extract(epoch FROM t.at) - t.kafka_ms / 1000.0, 0)::float8 AS seconds
  FROM integration_messagetrack t
  WHERE t.batch_rows IS NOT NULL AND t.queue_id = q.id AND t.at >= p.at
    AND t.at < p.at + %(part)s::interval AND t.kafka_ms > 0
    AND t.ended IN ('{Ended.APPLIED}', '{Ended.DELIVERED}')
  ORDER BY t.at LIMIT %(most)s) took
GROUP BY 1
"""


@dataclass(frozen=True, slots=True)
class Hours:
    """`begins` are the hours, oldest first; `now` is where the last of them has come to."""

    begins: tuple[datetime, ...]
    now: datetime

    @property
    def since(self) -> datetime:
        return self.begins[0]


@dataclass(frozen=True, slots=True)
class CauseLine:
    """One cause: how many failed first in each hour. The line of all others has no code."""

    code: str
    fingerprint: str
    text: str
    hours: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.hours)


@dataclass(frozen=True, slots=True)
class FailureChart:
    """The largest causes first; `is_capped` when only the newest failures were looked at."""

    causes: Sequence[CauseLine]
    hours: tuple[int, ...]
    is_capped: bool

    @property
    def total(self) -> int:
        return sum(self.hours)


class Throughput(NamedTuple):
    """One hour; None where no samples tell it."""

    incoming: int | None
    settled: int | None


class Latency(NamedTuple):
    """Latencies of one hour in seconds; None where no message ended. `messages` were looked at."""

    messages: int
    half: float | None
    most: float | None
    nearly_all: float | None


NOTHING: Final = Latency(0, None, None, None)


def last_hours() -> Hours:
    """Return the hours by the database's clock, in one query."""
    [(now,)] = fetch_all("SELECT clock_timestamp()")
    last = now.replace(minute=0, second=0, microsecond=0)
    return Hours(tuple(last - HOUR * back for back in reversed(range(HOURS))), now)


def queues_of(scope: Scope, name: str = "") -> Collection[int]:
    """The queues that charts are drawn of: one, or all that this person may know of."""
    queues = Queue.objects.filter(scope.within("system"))
    if name:
        queues = queues.filter(name=name)
    return list(queues.values_list("pk", flat=True))


@planned_anew()
def failures_by_hour(hours: Hours, queues: Collection[int], *, is_all: bool) -> FailureChart:
    """Count failures in two queries; `is_all` when these are all queues there are."""
    condition = "" if is_all else " AND f.queue_id = ANY(%(queues)s::bigint[])"
    values = {
        "begins": list(hours.begins),
        "since": hours.since,
        "queues": list(queues),
        "most": MOST_ROWS,
    }
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * HOURS)
    texts: dict[tuple[str, str], str] = {}
    failures = fetch_all(_COUNTED.format(queues=condition), values)
    for code, fingerprint, text, hour, count in failures:
        counted[code, fingerprint][min(max(hour, 1), HOURS) - 1] += count
        texts[code, fingerprint] = text or ""
    [(looked_at, has_rules)] = fetch_all(_LOOKED_AT.format(queues=condition), values)
    if (has_rules or standby()) and any_masked([] if is_all else list(queues)):
        # Which message a text is of is not known.
        texts = dict.fromkeys(texts, HIDDEN)
    lines = [
        CauseLine(
            code,
            fingerprint,
            cause_words(texts[code, fingerprint], sum(numbers)),
            tuple(numbers),
        )
        for (code, fingerprint), numbers in counted.items()
    ]
    lines.sort(key=lambda line: (-line.total, line.code, line.fingerprint))
    return FailureChart(_shown(lines), _sums(lines), looked_at > MOST_ROWS)


def _shown(lines: Sequence[CauseLine]) -> Sequence[CauseLine]:
    """The largest by their ids; an id takes its time, and there may be thousands of causes."""
    if len(lines) > CAUSES + 1:
        rest = lines[CAUSES:]
        others = CauseLine("", "", f"{len(rest):,} other causes", _sums(rest))
        lines = [*lines[:CAUSES], others]
    return [replace(line, fingerprint=cause_id(line.fingerprint)) for line in lines]


def _sums(lines: Sequence[CauseLine]) -> tuple[int, ...]:
    return tuple(sum(line.hours[hour] for line in lines) for hour in range(HOURS))


def throughput_by_hour(hours: Hours, queues: Collection[int]) -> Sequence[Throughput]:
    """One for each hour, oldest first, in one query."""
    edges = [*hours.begins, hours.now]
    by_hour = {
        int(number): Throughput(came, settled)
        for number, came, settled in fetch_all(_STEPS, {"edges": edges, "queues": list(queues)})
    }
    # The first edge is the beginning of the first hour, and has the number 1.
    return [by_hour.get(hour + 2, Throughput(None, None)) for hour in range(HOURS)]


def latency_by_hour(hours: Hours, queues: Collection[int]) -> Sequence[Latency]:
    """One for each hour, oldest first, in one query with its settings."""
    if not queues:
        return [NOTHING] * HOURS
    values = {
        "begins": list(hours.begins),
        "since": hours.since,
        "now": hours.now,
        "part": f"{60 // PARTS} min",
        "queues": list(queues),
        "most": max(BATCHES // len(queues), 1),
    }
    with rows.reading(rows.NEVER_WHOLE) as cursor:
        cursor.execute(_TOOK, values)
        by_hour = {hour: Latency(count, *times) for hour, count, times in cursor.fetchall()}
    return [by_hour.get(hour + 1, NOTHING) for hour in range(HOURS)]
