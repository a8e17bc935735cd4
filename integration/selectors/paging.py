"""One page of a list, with a count of all that match: exact counts of big tables are slow."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from django.db.models import QuerySet

Row = TypeVar("Row")
Mark = TypeVar("Mark")

PAGE_ROWS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Row, Mark]):
    """The rows, and the marks in the list behind which and before which there are more.

    `count` is of all rows that match; it stops above the cap.
    """

    rows: tuple[Row, ...]
    count: int
    cap: int
    next_after: Mark | None = None
    before: Mark | None = None

    @property
    def is_capped(self) -> bool:
        return self.count > self.cap

    @property
    def shown_count(self) -> int:
        return min(self.count, self.cap)


def capped_count(rows: QuerySet[Any, Any], cap: int) -> int:
    """Count rows, at most one more than the cap."""
    return rows.order_by()[: cap + 1].count()
