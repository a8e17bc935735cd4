"""Removes what rules say: a chunk a transaction, tracking by whole days, staged tables by run."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.db import transaction

from crontasks.cleanup import stages
from crontasks.cleanup.rules import Rule
from integration.store import track_days
from integration.store.sessions import alias, execute, fetch_all

Parameters = Mapping[str, object]
ShouldStop = Callable[[], bool]
# Of one table, by where its rows lie: no index leads to them.
_CHUNK: Final = """
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM {table} WHERE at < %(before)s LIMIT %(chunk)s FOR UPDATE SKIP LOCKED
)) RETURNING ended
"""


def remove(rule: Rule, parameters: Parameters, should_stop: ShouldStop) -> Counter[str]:
    """Remove everything the rule names at `parameters["at"]`; counts by status.

    What somebody else uses at this moment is left to the next run.
    """
    if rule.name == stages.STAGES.name:
        return stages.remove(rule, parameters, should_stop)
    if rule.name == "tracking":
        return _remove_days(parameters, should_stop)
    return _in_chunks(lambda: _remove_chunk(rule, parameters), parameters, should_stop)


def first_kept(parameters: Parameters) -> datetime:
    """Midnight, in UTC, of the oldest day of tracking that stays."""
    at: Any = parameters["at"]
    day = (at - timedelta(days=int(str(parameters["tracking_days"])))).astimezone(UTC)
    midnight: datetime = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight


def _in_chunks(
    remove_chunk: Callable[[], list[str]], parameters: Parameters, should_stop: ShouldStop
) -> Counter[str]:
    removed: Counter[str] = Counter()
    while not should_stop():
        statuses = remove_chunk()
        removed.update(statuses)
        if len(statuses) < int(str(parameters["chunk"])):
            break
    return removed


def _remove_chunk(rule: Rule, parameters: Parameters) -> list[str]:
    """Remove at most `parameters["chunk"]` rows in one transaction; returns their statuses."""
    with transaction.atomic(using=alias()):
        picked = fetch_all(rule.pick(), parameters)
        if picked:
            for statement in rule.removals():
                execute(statement, {"keys": [key for key, _ in picked]})
    return [status for _, status in picked]


def _remove_days(parameters: Parameters, should_stop: ShouldStop) -> Counter[str]:
    """Whole partitions before the first day to keep, then old rows that lie in none of them."""
    before = first_kept(parameters)
    removed = track_days.drop_before(before)
    if any(part.until <= before for part in track_days.parts()):
        return removed
    rows = {"before": before, "chunk": parameters["chunk"]}
    return removed + _in_chunks(lambda: _remove_rows(rows), parameters, should_stop)


def _remove_rows(rows: Parameters) -> list[str]:
    with transaction.atomic(using=alias()):
        chunk = _CHUNK.format(table=track_days.DEFAULT)
        return [str(ended) for (ended,) in fetch_all(chunk, rows)]
