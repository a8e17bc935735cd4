"""Failures by cause and hour: those that first failed within the last day, closed ones too."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from integration.policy.failure import cause_words
from integration.selectors.charts.hours import HOURS, Hours
from integration.selectors.failures.plans import planned_anew
from integration.store.sessions import fetch_all

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
SELECT count(*) FROM (
  SELECT 1 FROM integration_messageerror f
  WHERE f.last_failed_at >= %(since)s::timestamptz{queues} LIMIT %(most)s + 1
) few
"""


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


@planned_anew()
def failures_by_hour(hours: Hours, queues: Collection[int], *, is_all: bool) -> FailureChart:
    """In two queries; `is_all` when these are all queues there are."""
    condition = "" if is_all else " AND f.queue_id = ANY(%(queues)s::bigint[])"
    said = {
        "begins": list(hours.begins),
        "since": hours.since,
        "queues": list(queues),
        "most": MOST_ROWS,
    }
    counted: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * HOURS)
    texts: dict[tuple[str, str], str] = {}
    for code, fingerprint, text, hour, count in fetch_all(_COUNTED.format(queues=condition), said):
        counted[code, fingerprint][min(max(hour, 1), HOURS) - 1] += count
        texts[code, fingerprint] = text or ""
    [(looked_at,)] = fetch_all(_LOOKED_AT.format(queues=condition), said)
    lines = [
        CauseLine(*cause, cause_words(texts[cause]), tuple(numbers))
        for cause, numbers in counted.items()
    ]
    lines.sort(key=lambda line: (-line.total, line.code, line.fingerprint))
    return FailureChart(_shown(lines), _sums(lines), looked_at > MOST_ROWS)


def _shown(lines: Sequence[CauseLine]) -> Sequence[CauseLine]:
    if len(lines) <= CAUSES + 1:
        return lines
    rest = lines[CAUSES:]
    others = CauseLine("", "", f"{len(rest):,} other causes", _sums(rest))
    return [*lines[:CAUSES], others]


def _sums(lines: Sequence[CauseLine]) -> tuple[int, ...]:
    return tuple(sum(line.hours[hour] for line in lines) for hour in range(HOURS))
