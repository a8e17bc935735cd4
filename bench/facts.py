"""Facts from the database: how fast messages were settled, by the commit times it keeps."""

import math
from collections.abc import Sequence
from typing import Final

from bench.rig import BenchmarkError, Rig

# From the first commit to the last one; the messages of the first are its starting line and do
# not count, so that starting up is in nobody's figure.
_RATE: Final = """
WITH settled AS (
  SELECT pg_xact_commit_timestamp(xmin) AS at, count(*) AS messages
  FROM {table} WHERE {condition} GROUP BY xmin
), by_commit AS (
  SELECT at, sum(messages) AS messages FROM settled GROUP BY at
)
SELECT (sum(messages) - (array_agg(messages ORDER BY at))[1])::float8,
  extract(epoch FROM max(at) - min(at))::float8, sum(messages)::bigint
FROM by_commit
"""
OURS: Final = "integration_messagetrack"
THEIRS: Final = "bench_track"
HISTORY: Final = "SELECT count(DISTINCT seq) FROM bench_effect"


def rate(rig: Rig, table: str, condition: str = "true") -> float:
    """Messages a second between the first and the last commit of these tracking rows."""
    counted, seconds, _ = rig.rows(_RATE.format(table=table, condition=condition))[0]
    if not counted or not seconds:
        raise BenchmarkError(f"{table} holds fewer than two commits; too small a run")
    return float(counted / seconds)


def every_one_once(rig: Rig, table: str, count: int, condition: str = "true") -> None:
    """Raise BenchmarkError unless offsets 0 … count-1 are tracked, each once."""
    counts = rig.rows(
        f'SELECT count(*), count(DISTINCT "offset"), min("offset"), max("offset") '
        f"FROM {table} WHERE {condition}"
    )[0]
    if counts != (count, count, 0, count - 1):
        raise BenchmarkError(f"{table} should hold {count} offsets once each, but: {counts}")


def percentile(sample: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of the sample does not exceed."""
    ordered = sorted(sample)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
