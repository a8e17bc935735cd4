"""The history of a queue by people's hands: its configuration and the decisions, by time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from integration.models import QueueChange
from integration.selectors import changes
from integration.selectors.changes import Change, Difference
from integration.selectors.scope import Scope
from integration.selectors.setup import foreign

ROWS: Final = 30
WORDS: Final = {"create": "Created", "change": "Changed", "delete": "Deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One decision or change: `effect` is a sentence, `differences` are fields before and after.

    `change` is the number of its audit row, None for a decision.
    """

    at: datetime
    actor: str
    what: str
    effect: str = ""
    reason: str = ""
    differences: tuple[Difference, ...] = ()
    change: int | None = None


def history(queue_id: int, scope: Scope, rows: int = ROWS) -> list[Event]:
    """The newest events of a queue, in two queries; the caller made sure that it may be known.

    What is out of the scope is not named, which takes more queries for people whom one limits.
    """
    decided = QueueChange.objects.filter(queue=queue_id).order_by("-at", "-id")[:rows]
    changed = foreign.without_names(changes.history_of("queue", queue_id, rows), scope)
    events = [*map(_decision, decided), *map(_change, changed)]
    return sorted(events, key=lambda event: event.at, reverse=True)[:rows]


def _decision(row: QueueChange) -> Event:
    where = "" if row.partition is None else f" (partition {row.partition})"
    what = f"{row.action.capitalize()}{where}"
    return Event(at=row.at, actor=row.actor, what=what, effect=row.effect, reason=row.reason)


def _change(change: Change) -> Event:
    row = change.row
    # Of a queue that is new everything differs: that it was made is the news.
    differences = change.differences if row.action == "change" else ()
    return Event(
        at=row.at,
        actor=row.actor,
        what=WORDS.get(row.action, row.action),
        reason=row.reason,
        differences=differences,
        change=row.pk,
    )
