"""Removes tracking by its days: whole partitions first, then old rows that lie in none of them."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from crontasks.cleanup import removing
from crontasks.cleanup.rules import Rule
from crontasks.cursor import django_cursor
from integration.store import track_days

Remover = Callable[[Rule, Mapping[str, object], Callable[[], bool]], Counter[str]]

# By its key, so that each row is found in the partition where it lies.
_CHUNK: Final = """
WITH old AS (
  SELECT at, id FROM integration_messagetrack WHERE at < %(before)s
  ORDER BY at, id LIMIT %(chunk)s FOR UPDATE SKIP LOCKED
)
DELETE FROM integration_messagetrack t USING old
WHERE t.at = old.at AND t.id = old.id AND t.at < %(before)s RETURNING t.ended
"""


def remover(rule: Rule) -> Remover:
    """What removes by this rule: for tracking the days, for all others a chunk after another."""
    return remove if rule.name == "tracking" else removing.remove


def remove(
    _rule: Rule, parameters: Mapping[str, object], should_stop: Callable[[], bool]
) -> Counter[str]:
    """Remove what lies before the first day to keep; counts by ending.

    A day that somebody uses at this moment is left to the next run, and what is in no day with it.
    """
    before = first_kept(parameters)
    removed = track_days.drop_before(before)
    if any(part.until <= before for part in track_days.parts()):
        return removed
    chunk = int(str(parameters["chunk"]))
    while not should_stop():
        endings = _remove_chunk({"before": before, "chunk": chunk})
        removed.update(endings)
        if len(endings) < chunk:
            break
    return removed


def first_kept(parameters: Mapping[str, object]) -> datetime:
    """Midnight, in UTC, of the oldest day that stays."""
    at: Any = parameters["at"]
    day = (at - timedelta(days=int(str(parameters["tracking_days"])))).astimezone(UTC)
    midnight: datetime = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight


def _remove_chunk(said: Mapping[str, object]) -> list[str]:
    with transaction.atomic(using=settings.SLUICE_DATABASE), django_cursor() as cursor:
        cursor.execute(_CHUNK, said)
        return [str(ended) for (ended,) in cursor.fetchall()]
