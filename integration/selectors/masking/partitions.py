"""What the engine wrote where it stopped, without what is masked of the message it stopped at."""

from collections.abc import Iterable, Mapping
from uuid import UUID

from integration.models import QueuePartition
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of


def cover_places(places: Iterable[QueuePartition]) -> None:
    """Hide what is masked in partitions that are only shown, and never saved.

    One query more for those of failures, unless `has_rules` of the partitions says there are none.
    """
    stopped = [p for p in places if p.state_error is not None and getattr(p, "has_rules", True)]
    found = covers_of([p.state_error for p in stopped if p.state_error]) if stopped else {}
    for place in stopped:
        place.state_text = covered(place.state_text, place.state_error, found)


def covered(text: str, error: UUID | None, covers: Mapping[UUID, Cover]) -> str:
    """The text that was written for this failure."""
    return text if error is None else covers.get(error, UNCOVERED).text(text)
