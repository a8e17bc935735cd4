"""Strict error queues in memory: whose turn it is; the fake of store.strict_order."""

from uuid import UUID

from integration.policy.states import OPEN
from tests.support.memory.rows import ErrorRow
from tests.support.memory.tables import MemoryDatabase


def copied(error_queue: MemoryDatabase, failure: UUID) -> ErrorRow | None:
    """The row of that failure in a queue that feeds this error queue."""
    found = (feeder.errors.get(failure) for feeder in error_queue.feeders)
    return next((row for row in found if row is not None), None)


def waits(database: MemoryDatabase, row: ErrorRow) -> bool:
    """Whether a row has to wait until another one is closed."""
    error_queue = database.error_queue
    if error_queue is None or not _holds_its_place(error_queue, row):
        return False
    [place] = error_queue.places.values()
    own = error_queue.error_at(place.topic_uuid, place.partition, place.next_offset)
    if own is not None and own.state in OPEN:
        return True
    held = [
        (feeder, one)
        for feeder in error_queue.feeders
        for one in feeder.open_rows()
        if _holds_its_place(error_queue, one)
    ]
    return _first_of_key(*min(held, key=lambda pair: _order(pair[1]))).id != row.id


def _first_of_key(database: MemoryDatabase, row: ErrorRow) -> ErrorRow:
    """Itself, or the one of its key whose turn comes before its own."""
    queue = database.queue
    is_kept = queue.keeps_keys_in_order or (queue.sequential and row.parked)
    if not is_kept or row.order_key is None:
        return row
    of_key = (other for other in database.open_rows() if other.order_key == row.order_key)
    return min(of_key, key=lambda other: other.arrival)


def _holds_its_place(error_queue: MemoryDatabase, row: ErrorRow) -> bool:
    """Copied to the error queue, and its copy not passed there."""
    [place] = error_queue.places.values()
    is_passed = row.copy_offset is not None and row.copy_offset < place.next_offset
    return row.copied_at is not None and not is_passed


def _order(row: ErrorRow) -> tuple[float, tuple[int, int], UUID]:
    return row.copied_at or 0.0, row.arrival, row.id
