"""The same verbs for many failures: what has moved on is skipped and counted, never forced."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db.models import F

from integration.actions import errors
from integration.actions.errors import Move, Request, Values
from integration.actions.problems import ReasonMissingError
from integration.actions.transaction import short_transaction
from integration.clock import database_now
from integration.models import ErrorChange, MessageError, QueuePartition
from integration.selectors.lateness import why_late
from integration.store.starts import leave_request

# Each chunk is one short transaction: thousands of rows never lock each other out for long.
CHUNK_ROWS: Final = 500

Versions = Mapping[UUID, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """What became of each row asked for; the four counts add up to all of them.

    `moved_on` rows were changed by somebody else or the engine meanwhile or are gone,
    `in_work` ones are locked by the engine at this moment, `would_be_late` ones need the
    confirmation that they may be applied after newer messages.
    """

    moved: int = 0
    moved_on: int = 0
    in_work: int = 0
    would_be_late: int = 0

    def __add__(self, other: "BulkOutcome") -> "BulkOutcome":
        return BulkOutcome(
            moved=self.moved + other.moved,
            moved_on=self.moved_on + other.moved_on,
            in_work=self.in_work + other.in_work,
            would_be_late=self.would_be_late + other.would_be_late,
        )


def release_many(
    ids: Iterable[UUID],
    *,
    actor: str,
    reason: str = "",
    versions: Versions | None = None,
    late: bool = False,
) -> BulkOutcome:
    """Release the held ones among `ids`; with `versions`, only rows that did not change since.

    Without `late`, those that would be applied after newer messages stay on hold.
    """
    asked = Request(errors.RELEASE, actor, reason)
    chunks = [_release_chunk(chunk, asked, versions, late=late) for chunk in _chunks(ids)]
    return sum(chunks, BulkOutcome())


def hold_many(
    ids: Iterable[UUID], *, actor: str, reason: str = "", versions: Versions | None = None
) -> BulkOutcome:
    """Put the ones on hold that the engine would try again."""
    return _move_many(ids, Request(errors.HOLD, actor, reason), errors.held(), versions)


def delete_many(
    ids: Iterable[UUID], *, actor: str, reason: str, versions: Versions | None = None
) -> BulkOutcome:
    """Delete open ones; each can be restored until cleanup. Raises ReasonMissingError."""
    if not reason.strip():
        raise ReasonMissingError(action="delete messages")
    return _move_many(ids, Request(errors.DELETE, actor, reason), errors.deleted(), versions)


def restore_many(
    ids: Iterable[UUID], *, actor: str, reason: str = "", versions: Versions | None = None
) -> BulkOutcome:
    """Bring deleted ones back on hold."""
    return _move_many(ids, Request(errors.RESTORE, actor, reason), errors.restored(), versions)


def _move_many(
    ids: Iterable[UUID], asked: Request, more: Values, versions: Versions | None
) -> BulkOutcome:
    total = BulkOutcome()
    for chunk in _chunks(ids):
        with short_transaction():
            rows, outcome = _lock(chunk, asked.move, versions)
            _write(rows, asked, more)
        _ask_for_starts(rows)
        total += outcome + BulkOutcome(moved=len(rows))
    return total


def _release_chunk(
    chunk: Sequence[UUID], asked: Request, versions: Versions | None, *, late: bool
) -> BulkOutcome:
    with short_transaction():
        rows, outcome = _lock(chunk, asked.move, versions)
        behind = _late_ones(rows)
        punctual = [row for row in rows if row.pk not in behind]
        passed = [row for row in rows if row.pk in behind]
        _write(punctual, asked, errors.released(late=False, apply_as_newest=False))
        if late:
            _write(passed, asked, errors.released(late=True, apply_as_newest=False))
    moved = rows if late else punctual
    _ask_for_starts(moved)
    return outcome + BulkOutcome(moved=len(moved), would_be_late=len(rows) - len(moved))


def _lock(
    chunk: Sequence[UUID], move: Move, versions: Versions | None
) -> tuple[list[MessageError], BulkOutcome]:
    """Lock the rows that can be moved and count the others. In id order: no deadlock."""
    found = (
        MessageError.objects.select_for_update(skip_locked=True, of=("self",))
        .select_related("queue")
        .defer("payload", "edited_payload", "headers", "detail")
        .filter(pk__in=chunk)
        .order_by("pk")
    )
    rows = list(found)
    fit = [
        row
        for row in rows
        if row.state in move.expected
        and (versions is None or versions.get(row.pk, row.version) == row.version)
    ]
    missing = len(chunk) - len(rows)
    there = MessageError.objects.filter(pk__in=chunk).count() if missing else len(rows)
    in_work = max(0, there - len(rows))
    return fit, BulkOutcome(in_work=in_work, moved_on=len(chunk) - len(fit) - in_work)


def _late_ones(rows: Sequence[MessageError]) -> set[UUID]:
    places = {
        (place.queue_id, place.partition): place
        for place in QueuePartition.objects.filter(queue__in={row.queue_id for row in rows})
    }
    return {
        row.pk
        for row in rows
        if why_late(row, row.queue, places.get((row.queue_id, row.partition))) is not None
    }


def _write(rows: Sequence[MessageError], asked: Request, more: Values) -> None:
    if not rows:
        return
    ids = [row.pk for row in rows]
    values: dict[str, object] = {"state": asked.move.target, "version": F("version") + 1, **more}
    MessageError.objects.filter(pk__in=ids, state__in=asked.move.expected).update(**values)
    errors.cancel_tickets(ids)
    ErrorChange.objects.bulk_create(
        ErrorChange(
            error=row,
            at=database_now(),
            actor=asked.actor,
            action=asked.move.action,
            from_state=row.state,
            to_state=asked.move.target,
            reason=asked.reason.strip(),
        )
        for row in rows
    )


def _ask_for_starts(rows: Sequence[MessageError]) -> None:
    for queue_id in sorted({row.queue_id for row in rows}):
        leave_request(queue_id)


def _chunks(ids: Iterable[UUID]) -> Iterator[list[UUID]]:
    every = list(dict.fromkeys(ids))
    for start in range(0, len(every), CHUNK_ROWS):
        yield every[start : start + CHUNK_ROWS]
