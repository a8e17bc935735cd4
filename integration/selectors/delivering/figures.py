"""How fast and how well endpoints answer: counted among the newest calls, which bounds the cost."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from integration.policy.states import DeliveryState
from integration.store.sessions import django_connection

QUARTER: Final = timedelta(minutes=15)
DAY: Final = timedelta(hours=24)
# Newest calls that are looked at for each endpoint and window.
NEWEST_CALLS: Final = 20_000
# In a table of many endpoints fewer will do.
TABLE_CALLS: Final = 2_000

_WINDOW: Final = f"""
    SELECT e.id, count(*),
      count(*) FILTER (WHERE d.state = '{DeliveryState.DELIVERED}'),
      count(*) FILTER (WHERE d.state = '{DeliveryState.FAILED}'),
      count(*) FILTER (WHERE d.state = '{DeliveryState.UNKNOWN}'),
      percentile_cont(0.5) WITHIN GROUP (ORDER BY d.took_ms),
      percentile_cont(0.95) WITHIN GROUP (ORDER BY d.took_ms),
      min(d.ended_at), statement_timestamp(),
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


@dataclass(frozen=True, slots=True, kw_only=True)
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
    seconds: float = 0.0
    last_delivered_at: datetime | None = None

    @property
    def per_second(self) -> float:
        return self.delivered / self.seconds if self.seconds else 0.0

    @property
    def per_minute(self) -> float:
        return self.per_second * 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """How many calls ended in the same way. `status` is the answer's, as text; empty for none."""

    state: str
    status: str
    code: str
    count: int
    last_at: datetime


def windows(
    endpoints: Collection[int], within: timedelta, most: int = TABLE_CALLS
) -> Mapping[int, Window]:
    """What each endpoint did within that time, in one query. Those not called are left out."""
    if not endpoints:
        return {}
    with django_connection().cursor() as cursor:
        cursor.execute(_WINDOW, [list(endpoints), within.total_seconds(), most])
        return {row[0]: _window(row, within, most) for row in cursor.fetchall()}


def outcomes(endpoint: int, within: timedelta, most: int = NEWEST_CALLS) -> list[Outcome]:
    """How its calls ended within that time, the most frequent first; one query."""
    with django_connection().cursor() as cursor:
        cursor.execute(_OUTCOMES, [endpoint, within.total_seconds(), most])
        return [Outcome(*row) for row in cursor.fetchall()]


def _window(row: tuple[object, ...], within: timedelta, most: int) -> Window:
    _, count, delivered, failed, unknown, p50, p95, first, now, last = row
    seconds = within.total_seconds()
    if count == most and isinstance(first, datetime) and isinstance(now, datetime):
        seconds = max((now - first).total_seconds(), 0.001)
    return Window(
        count=_whole(count),
        delivered=_whole(delivered),
        failed=_whole(failed),
        unknown=_whole(unknown),
        p50_ms=p50 if isinstance(p50, float) else None,
        p95_ms=p95 if isinstance(p95, float) else None,
        seconds=seconds,
        last_delivered_at=last if isinstance(last, datetime) else None,
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
