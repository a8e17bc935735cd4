"""A blocked queue as a card: what stopped it, what waits behind it, what can be done about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import timezone

from crontasks.models import Notice
from crontasks.notices import book
from crontasks.problems.facts import is_wanted
from integration.selectors.queues import heads
from integration.selectors.queues.heads import Head
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A blocked queue as a sentence, with what can be done about it."""

    queue: QueueRow
    head: Head | None
    what: str
    waiting: str
    notice: Notice | None


def is_blocked(row: QueueRow) -> bool:
    """Return True when it waits for a person's decision, and nobody stopped it on purpose."""
    return is_wanted(row) and row.standing[0] is Status.BLOCKED


def cards(
    stopped: Sequence[QueueRow], found_heads: Mapping[UUID, Head], now: datetime
) -> list[Card]:
    """A card for each blocked queue, those with the most waiting behind them first."""
    notices = book.of_blocks(row.name for row in stopped)
    made = [_card(row, found_heads, notices.get(row.name), now) for row in stopped]
    return sorted(made, key=lambda card: -(card.queue.lag or 0))


def _card(
    row: QueueRow, found_heads: Mapping[UUID, Head], notice: Notice | None, now: datetime
) -> Card:
    head = None
    if row.failure is not None and heads.is_blocked_by_head(row):
        head = found_heads.get(row.failure)
    return Card(
        queue=row,
        head=head,
        what=heads.blocked_for(row, head, now),
        waiting=heads.behind(row, now) if row.is_read else "",
        notice=notice,
    )


def card_of(row: QueueRow, *, reveal: bool) -> Card | None:
    """The card of one queue, None when it is not blocked."""
    if not is_blocked(row):
        return None
    [card] = cards([row], heads.heads([row], reveal=reveal), timezone.now())
    return card
