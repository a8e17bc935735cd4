"""The hours that charts go over: the last 24 by the clock, the last of them not over yet."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from integration.models import Queue
from integration.selectors.scope import Scope
from integration.store.sessions import fetch_all

HOURS: Final = 24
HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Hours:
    """`begins` are the hours, oldest first; `now` is where the last of them has come to."""

    begins: tuple[datetime, ...]
    now: datetime

    @property
    def since(self) -> datetime:
        return self.begins[0]


def last_hours() -> Hours:
    """By the database's clock, in one query."""
    [(now,)] = fetch_all("SELECT clock_timestamp()")
    last = now.replace(minute=0, second=0, microsecond=0)
    return Hours(tuple(last - HOUR * back for back in reversed(range(HOURS))), now)


def queues_of(scope: Scope, name: str = "") -> Collection[int]:
    """The queues that charts are drawn of: one, or all that this person may know of."""
    found = Queue.objects.filter(scope.within("system"))
    if name:
        found = found.filter(name=name)
    return list(found.values_list("pk", flat=True))
