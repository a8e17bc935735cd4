"""Counters of monitoring in SQL: what a run has counted is added to what there is."""

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

from django.db import DatabaseError, InterfaceError

from integration.delivery.tally import Tally
from integration.models.tally import Tally as Row
from integration.store.sessions import execute, fetch_all

log = logging.getLogger(__name__)

# In one order for all runs, so that no two wait for each other.
ADD: Final = """
INSERT INTO integration_tally AS t (kind, subject, ended, counts, total)
SELECT kind, subject, ended, counts, total
FROM jsonb_to_recordset(%s::jsonb) v (kind text, subject bigint, ended text, counts bigint[],
  total float8) ORDER BY kind, subject, ended
ON CONFLICT (kind, subject, ended) DO UPDATE SET total = t.total + excluded.total,
  counts = ARRAY(SELECT coalesce(b.known, 0) + coalesce(b.more, 0)
    FROM unnest(t.counts, excluded.counts) WITH ORDINALITY b (known, more, place) ORDER BY place)
"""
_ALL: Final = "SELECT kind, subject, ended, counts, total FROM integration_tally"


def add(queue_id: int, tally: Tally) -> None:
    """Add what one run has counted. Never raises: what cannot be written is lost."""
    if tally.is_empty:
        return
    try:
        execute(ADD, [json.dumps(list(_rows(queue_id, tally)))])
    except (DatabaseError, InterfaceError) as e:
        # The run itself finds out that its session is gone, and says so.
        log.info("Counters for monitoring were not written: %s", type(e).__name__)


def read() -> list[tuple[str, int, str, list[int], float]]:
    """All counters: (kind, subject, ended, counts, total). Raises DatabaseError."""
    return [tuple(row) for row in fetch_all(_ALL)]


def _rows(queue_id: int, tally: Tally) -> Iterator[dict[str, Any]]:
    for ended, count in tally.endings.items():
        yield _row(Row.Kind.ENDED, queue_id, [count], 0.0, str(ended))
    if any(tally.latency.counts):
        yield _row(Row.Kind.LATENCY, queue_id, tally.latency.counts, tally.latency.total)
    for endpoint, calls in tally.calls.items():
        yield _row(Row.Kind.CALL, endpoint, calls.counts, calls.total)


def _row(
    kind: Row.Kind, subject: int, counts: list[int], total: float, ended: str = ""
) -> dict[str, Any]:
    return {
        "kind": kind.value,
        "subject": subject,
        "ended": ended,
        "counts": counts,
        "total": total,
    }
