"""What is near a tracked message: before and after it, its cause, and what it caused."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from integration.selectors.scope import Scope
from integration.selectors.tracking import rows
from integration.selectors.tracking.batches import MICROSECOND, Span
from integration.selectors.tracking.rows import TrackRow

# Further away nobody speaks of neighbours, and older days stay out of the question.
FAR: Final = timedelta(days=7)
RELATED: Final = 20
# Answers arrive after what they answer, but clocks of two machines may differ a little.
EARLIER: Final = timedelta(hours=1)
_BESIDE: Final = "t.message_id <> %(message)s"
_OF_KEY: Final = "t.queue_id = %(queue)s AND t.message_id <> %(message)s AND t.key = %(key)s"
_BEFORE: Final = "(t.at < %(at)s OR t.id < %(row)s)"
_AFTER: Final = "(t.at > %(at)s OR t.id > %(row)s)"
_WINDOW: Final = "t.at >= %(since)s AND t.at <= %(until)s"
_ANSWERS: Final = tuple(
    f"t.{column} = %(message)s AND t.message_id <> %(message)s AND {_WINDOW}"
    for column in ("caused_by", "external_id", "search_a", "search_b")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The messages beside one, of its queue and of its key there; None where there is none.

    `answers` name it as their cause or as one of their ids: replies, and what it led to.
    """

    earlier: TrackRow | None
    later: TrackRow | None
    earlier_of_key: TrackRow | None
    later_of_key: TrackRow | None
    answers: tuple[TrackRow, ...]


def neighbours(track: TrackRow, scope: Scope) -> Neighbours:
    """What is near this track; each look is bounded by a week, an index and a number of rows."""
    earlier, later = _beside(track, _BESIDE)
    before, after = _of_key(track) if track.key else (None, None)
    return Neighbours(
        earlier=earlier,
        later=later,
        earlier_of_key=before,
        later_of_key=after,
        answers=_answers(track, scope),
    )


def _said(track: TrackRow) -> dict[str, Any]:
    return {
        "queue": track.queue_id,
        "message": track.message_id,
        "key": track.key,
        "at": track.at,
        "row": track.id,
        "since": track.at - FAR,
        "until": track.at + FAR,
    }


def _beside(track: TrackRow, condition: str) -> tuple[TrackRow | None, TrackRow | None]:
    said, queues = _said(track), {track.queue_id: (track.queue, track.direction)}
    earlier = Span([track.queue_id], track.at - FAR, track.at + MICROSECOND)
    later = Span([track.queue_id], track.at, track.at + FAR, newest_first=False)
    before = rows.in_order(earlier, f"{condition} AND {_BEFORE}", said, queues, limit=1)
    after = rows.in_order(later, f"{condition} AND {_AFTER}", said, queues, limit=1)
    return before[0] if before else None, after[0] if after else None


def _of_key(track: TrackRow) -> tuple[TrackRow | None, TrackRow | None]:
    """A rare key is looked up whole; a frequent one has neighbours close by."""
    condition = f"{_BESIDE} AND t.key = %(key)s"
    queues = {track.queue_id: (track.queue, track.direction)}
    by_key = f"{_OF_KEY} AND {_WINDOW}"
    [found] = rows.few_by_index([by_key], _said(track), queues)
    if found is None:
        return _beside(track, condition)
    before = [row for row in found if row.place < track.place]
    after = [row for row in found if row.place > track.place]
    return (
        max(before, key=lambda row: row.place, default=None),
        min(after, key=lambda row: row.place, default=None),
    )


def _answers(track: TrackRow, scope: Scope) -> tuple[TrackRow, ...]:
    if not track.message_id:
        return ()
    said = {**_said(track), "since": track.at - EARLIER}
    gathered = rows.by_index(_ANSWERS, said, rows.queues_of(scope))
    every = {row.id: row for found in gathered for row in found}
    return tuple(sorted(every.values(), key=lambda row: row.place)[:RELATED])
