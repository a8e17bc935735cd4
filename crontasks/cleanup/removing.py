"""Removes what a rule says, a chunk a transaction."""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import transaction

from crontasks.cleanup.rules import Rule
from crontasks.cursor import django_cursor


def remove(
    rule: Rule, parameters: Mapping[str, object], should_stop: Callable[[], bool]
) -> Counter[str]:
    """Remove everything the rule names at `parameters["at"]`; counts by status.

    Rows that somebody else works on are left to the next run.
    """
    removed: Counter[str] = Counter()
    while not should_stop():
        statuses = remove_chunk(rule, parameters)
        removed.update(statuses)
        if len(statuses) < int(str(parameters["chunk"])):
            break
    return removed


def remove_chunk(rule: Rule, parameters: Mapping[str, object]) -> list[str]:
    """Remove at most `parameters["chunk"]` rows in one transaction; returns their statuses."""
    with transaction.atomic(using=settings.SLUICE_DATABASE), django_cursor() as cursor:
        cursor.execute(rule.pick(), parameters)
        picked: list[Any] = list(cursor.fetchall())
        if picked:
            for statement in rule.removals():
                cursor.execute(statement, {"keys": [key for key, _ in picked]})
    return [status for _, status in picked]


def database_time() -> datetime:
    """The one clock that rules are judged by."""
    with django_cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        now: datetime = cursor.fetchone()[0]
    return now
