"""The open restore and earlier ones, as pages and commands show them."""

from dataclasses import dataclass
from typing import Final

from integration.models import Restore, RestoreFinding
from integration.restore import options
from integration.restore.options import Card

EARLIER_ROWS: Final = 10


@dataclass(frozen=True, slots=True)
class Told:
    """A finding with its words."""

    row: RestoreFinding
    card: Card


@dataclass(frozen=True, slots=True)
class Overview:
    """`current` is the restore that is not settled yet, with what is open and what is decided."""

    current: Restore | None
    unsettled: list[Told]
    decided: list[RestoreFinding]
    earlier: list[Restore]

    @property
    def decided_count(self) -> int:
        return len(self.decided)

    @property
    def first(self) -> Told | None:
        """What is decided next; the others follow."""
        return self.unsettled[0] if self.unsettled else None


def overview() -> Overview:
    """Everything about restores; three queries."""
    current = Restore.objects.filter(closed_at__isnull=True).first()
    rows = [] if current is None else list(current.findings.order_by("pk"))
    earlier = Restore.objects.filter(closed_at__isnull=False).prefetch_related("findings")
    return Overview(
        current=current,
        unsettled=[Told(row, options.card(row)) for row in rows if row.decided_at is None],
        decided=[row for row in rows if row.decided_at is not None],
        earlier=list(earlier[:EARLIER_ROWS]),
    )


def open_count() -> int | None:
    """How many decisions are open; None when no restore is."""
    current = Restore.objects.filter(closed_at__isnull=True).first()
    if current is None:
        return None
    return current.findings.filter(decided_at__isnull=True).count()
