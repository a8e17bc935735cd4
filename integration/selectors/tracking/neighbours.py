"""The neighbours of a tracked message: before and after it, its cause, and what it caused."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from integration.selectors.tracking import batches, rows
from integration.selectors.tracking.batches import MICROSECOND, Span
from integration.selectors.tracking.rows import Queues, TrackRow

# Further away nobody speaks of neighbours, and older days stay out of the question.
FAR: Final = timedelta(days=7)
# So many of the queue's rows on either side are looked through for both neighbours in one go. The
# search index takes longest for a key that comes back among them: it reads pages around each row.
CLOSE: Final = 1_000
RELATED: Final = 20
# Answers arrive after what they answer, but clocks of two machines may differ a little.
EARLIER: Final = timedelta(hours=1)
_BESIDE: Final = "t.message_id <> %(message)s"
_OF_KEY: Final = "t.queue_id = %(queue)s AND t.message_id <> %(message)s AND t.key = %(key)s"
_SAME: Final = "t.key IS NOT DISTINCT FROM %(key)s"
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


@dataclass(frozen=True, slots=True)
class Side:
    """The tracks close by on one side. Of the track's key nothing may be known yet."""

    nearest: TrackRow | None
    of_key: TrackRow | None
    is_all: bool

    @property
    def knows_key(self) -> bool:
        return self.is_all or self.of_key is not None


def neighbours(track: TrackRow, readable: Queues) -> Neighbours:
    """Find what is near this track; each look is bounded by a week, an index and rows."""
    earlier, later = _both_sides(track)
    before, after = _of_key(track, earlier, later) if track.key else (None, None)
    return Neighbours(
        earlier=earlier.nearest,
        later=later.nearest,
        earlier_of_key=before,
        later_of_key=after,
        answers=_answers(track, readable),
    )


def _sides(track: TrackRow) -> tuple[tuple[Span, str], tuple[Span, str]]:
    """Return where to look on either side, and what is meant there among rows of one moment."""
    earlier = Span([track.queue_id], track.at - FAR, track.at + MICROSECOND)
    later = Span([track.queue_id], track.at, _until(track), newest_first=False)
    return (earlier, _BEFORE), (later, _AFTER)


def _values(track: TrackRow) -> dict[str, Any]:
    return {
        "queue": track.queue_id,
        "message": track.message_id,
        "key": track.key,
        "at": track.at,
        "row": track.id,
        "since": track.at - FAR,
        "until": _until(track),
    }


def _until(track: TrackRow) -> datetime:
    return min(track.at + FAR, rows.latest())


def _both_sides(track: TrackRow) -> tuple[Side, Side]:
    sides = earlier, later = _sides(track)
    with rows.reading(rows.NEVER_WHOLE) as cursor:
        near = [_nearest(cursor, track, *side) for side in sides]
    return _side(track, *earlier, *near[0]), _side(track, *later, *near[1])


def _side(track: TrackRow, span: Span, behind: str, near: list[TrackRow], is_all: bool) -> Side:
    if not near and not is_all:
        condition, queues = f"{_BESIDE} AND {behind}", _own_queue(track)
        near = rows.in_order(span, condition, _values(track), queues, limit=1)
    first = max if span.newest_first else min
    return Side(
        nearest=first(near, key=lambda row: row.place, default=None),
        of_key=next((row for row in near if row.key == track.key), None),
        is_all=is_all,
    )


def _nearest(cursor: Any, track: TrackRow, span: Span, behind: str) -> tuple[list[TrackRow], bool]:
    """The first row of its key on this side, and the first of any other.

    Only among the rows close by; and whether those are all of the span.
    """
    way = "DESC" if span.newest_first else "ASC"
    part, is_all = batches.beginning(cursor, span, CLOSE)
    if part is None:
        return [], True
    sql = (
        f"SELECT DISTINCT ON ({_SAME}) * "
        f"FROM ({part.rows(rows.COLUMNS, f'{_BESIDE} AND {behind}')}) t "
        f"ORDER BY {_SAME}, t.at {way}, t.id {way}"
    )
    return rows.read(cursor, sql, {**_values(track), **part.values}, _own_queue(track)), is_all


def _of_key(track: TrackRow, earlier: Side, later: Side) -> tuple[TrackRow | None, TrackRow | None]:
    """Return the neighbours of its key: a rare key's are looked up whole, others nearby."""
    if earlier.knows_key and later.knows_key:
        return earlier.of_key, later.of_key
    values, queues = _values(track), _own_queue(track)
    same_key = rows.few_by_index([f"{_OF_KEY} AND {_WINDOW}"], values, queues)
    if same_key is None:
        near = [
            rows.in_order(
                span, f"{_BESIDE} AND t.key = %(key)s AND {behind}", values, queues, limit=1
            )
            for span, behind in _sides(track)
        ]
        return near[0][0] if near[0] else None, near[1][0] if near[1] else None
    before = [row for row in same_key if row.place < track.place]
    after = [row for row in same_key if row.place > track.place]
    return before[-1] if before else None, after[0] if after else None


def _own_queue(track: TrackRow) -> Queues:
    return {track.queue_id: (track.queue, track.direction)}


def _answers(track: TrackRow, readable: Queues) -> tuple[TrackRow, ...]:
    if not track.message_id:
        return ()
    values = {**_values(track), "since": track.at - EARLIER}
    return tuple(rows.by_index(_ANSWERS, values, readable)[:RELATED])
