"""Removes tracking by its days: whole partitions first, then old rows that lie in none of them."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from crontasks.cleanup import removing, stages
from crontasks.cleanup.rules import Rule
from crontasks.cursor import django_cursor
from integration.store import track_days

Remover = Callable[[Rule, Mapping[str, object], Callable[[], bool]], Counter[str]]

# Of one table, by where its rows lie: no index leads to them.
_CHUNK: Final = """
DELETE FROM {table} WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM {table} WHERE at < %(before)s LIMIT %(chunk)s FOR UPDATE SKIP LOCKED
)) RETURNING ended
"""


def remover(rule: Rule) -> Remover:
    """What removes by this rule: tracking goes by days, what bulk runs staged by tables.

    All others go a chunk after another.
    """
    whole: Mapping[str, Remover] = {"tracking": remove, stages.STAGES.name: stages.remove}
    return whole.get(rule.name, removing.remove)


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
    said = {"before": before, "chunk": int(str(parameters["chunk"]))}
    return removed + _remove_rows(track_days.DEFAULT, said, should_stop)


def first_kept(parameters: Mapping[str, object]) -> datetime:
    """Midnight, in UTC, of the oldest day that stays."""
    at: Any = parameters["at"]
    day = (at - timedelta(days=int(str(parameters["tracking_days"])))).astimezone(UTC)
    midnight: datetime = day.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight


def _remove_rows(
    table: str, said: Mapping[str, Any], should_stop: Callable[[], bool]
) -> Counter[str]:
    removed: Counter[str] = Counter()
    while not should_stop():
        with transaction.atomic(using=settings.SLUICE_DATABASE), django_cursor() as cursor:
            cursor.execute(_CHUNK.format(table=table), said)
            endings = [str(ended) for (ended,) in cursor.fetchall()]
        removed.update(endings)
        if len(endings) < said["chunk"]:
            break
    return removed
