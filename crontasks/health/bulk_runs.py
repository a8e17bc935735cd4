"""How many bulk runs wait for a driver, and for how long."""

from typing import Final, NamedTuple

from crontasks.cursor import django_cursor

_OPEN: Final = """
    SELECT count(*) FILTER (WHERE state = 'ASKED'), count(*) FILTER (WHERE state = 'RUNNING'),
           coalesce(extract(epoch FROM clock_timestamp()
               - min(asked_at) FILTER (WHERE state = 'ASKED')), 0)::float
    FROM integration_bulkrun
    WHERE state IN ('ASKED', 'RUNNING') AND (state = 'RUNNING' OR lease_until IS NULL
        OR lease_until < clock_timestamp())"""


class Open(NamedTuple):
    """Runs that have not ended. What a command has just asked for itself does not wait."""

    waiting: int
    running: int
    oldest_seconds: float


def open_runs() -> Open:
    """Counted in one statement. Raises DatabaseError."""
    with django_cursor() as cursor:
        cursor.execute(_OPEN)
        return Open(*cursor.fetchone())
