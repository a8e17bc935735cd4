"""Speed and success of endpoints: counted among the newest calls, which bounds the cost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from integration.policy.states import DeliveryState
from integration.store.sessions import fetch_all

QUARTER: Final = timedelta(minutes=15)
DAY: Final = timedelta(hours=24)
# Newest calls that are looked at for each endpoint and window.
NEWEST_CALLS: Final = 20_000
# In a table of many endpoints fewer will do.
TABLE_CALLS: Final = 2_000

_WINDOW: Final = f"""
    SELECT e.id, min(d.ended_at), statement_timestamp(), count(*),
      count(*) FILTER (WHERE d.state = '{DeliveryState.DELIVERED}'),
      count(*) FILTER (WHERE d.state = '{DeliveryState.FAILED}'),
      count(*) FILTER (WHERE d.state = '{DeliveryState.UNKNOWN}'),
      percentile_cont(0.5) WITHIN GROUP (ORDER BY d.took_ms),
      percentile_cont(0.95) WITHIN GROUP (ORDER BY d.took_ms),
      max(d.ended_at) FILTER (WHERE d.state = '{DeliveryState.DELIVERED}')
    FROM unnest(%s::bigint[]) e (id)
    CROSS JOIN LATERAL (
      SELECT state, took_ms, ended_at FROM integration_delivery
      WHERE endpoint_id = e.id AND ended_at > statement_timestamp() - %s * interval '1 second'
      ORDER BY ended_at DESC LIMIT %s) d
    GROUP BY e.id"""
_OUTCOMES: Final = """
    SELECT state, coalesce(status::text, ''), code, count(*), max(ended_at) FROM (
      SELECT state, status, code, ended_at FROM integration_delivery
      WHERE endpoint_id = %s AND ended_at > statement_timestamp() - %s * interval '1 second'
      ORDER BY ended_at DESC LIMIT %s) d
    GROUP BY 1, 2, 3 ORDER BY 4 DESC LIMIT 20"""


@dataclass(frozen=True, slots=True)
class Window:
    """Calls of an endpoint that ended within a time; medians are milliseconds.

    `seconds` is what the figures cover: less than was asked where more calls ended than are
    looked at. Calls that nobody measured count, but not for the medians.
    """

    count: int = 0
    delivered: int = 0
    failed: int = 0
    unknown: int = 0
    p50_ms: float | None = None
    p95_ms: float | None = None
    last_delivered_at: datetime | None = None
    seconds: float = 0.0

    @property
    def per_second(self) -> float:
        return self.delivered / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """Calls that ended in the same way. `status` is the answer's, as text; empty for none."""

    state: str
    status: str
    code: str
    count: int
    last_at: datetime


def windows(
    endpoints: Collection[int], within: timedelta, most: int = TABLE_CALLS
) -> Mapping[int, Window]:
    """Return each endpoint's calls within that time, in one query; none where it was not called."""
    seconds = within.total_seconds()
    by_endpoint = dict.fromkeys(endpoints, Window(seconds=seconds))
    rows = fetch_all(_WINDOW, [list(endpoints), seconds, most]) if endpoints else []
    for endpoint, first, now, *figures in rows:
        window = Window(*figures)
        is_cut = window.count >= most
        covered = max((now - first).total_seconds(), 0.001) if is_cut else seconds
        by_endpoint[endpoint] = replace(window, seconds=covered)
    return by_endpoint


def outcomes(endpoint: int, within: timedelta, most: int = NEWEST_CALLS) -> list[Outcome]:
    """Count how its calls ended within that time, the most frequent first; one query."""
    return [Outcome(*row) for row in fetch_all(_OUTCOMES, [endpoint, within.total_seconds(), most])]
