"""The tracks of endings that a person decided, as the engine writes those that it meets."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from integration.models import MessageError, MessageTrack
from integration.policy.states import Ended
from integration.selectors.tracking.rows import TrackRow, of_messages
from integration.store.sessions import next_arrival

# The track of a failure has the time at which its transaction began; none lasts so long.
AROUND: Final = timedelta(hours=1)


def ended(error: MessageError, how: Ended) -> None:
    """Write how the message of a failure ended; see ended_together."""
    ended_together([error], how)


def ended_together(errors: Iterable[MessageError], how: Ended) -> None:
    """Write how the messages of failures ended, where their queues are tracked.

    In the caller's transaction, beside the lines of history that say who decided. What the engine
    found to search by is taken over from the newest track of each message's place.
    """
    by_queue: dict[int, list[MessageError]] = {}
    for error in errors:
        if error.queue.tracks:
            by_queue.setdefault(error.queue_id, []).append(error)
    for together in by_queue.values():
        _write(together, how)


def _write(errors: Sequence[MessageError], how: Ended) -> None:
    """Write those of one queue as one batch: of one moment, the first standing for all."""
    before, number = _before(errors), next_arrival()
    tracks = [_track(error, how, number, before.get(_place(error))) for error in errors]
    tracks[0].batch_rows = len(tracks)
    MessageTrack.objects.bulk_create(tracks)


def _track(error: MessageError, how: Ended, number: int, before: TrackRow | None) -> MessageTrack:
    moment = error.kafka_timestamp
    return MessageTrack(
        queue=error.queue,
        partition=error.partition,
        offset=error.offset,
        # A number of its own: those of one time lie close together, and tracking is read by that.
        arrival_batch=number,
        batch_rows=None,
        message_id=error.message_id,
        interface=error.interface,
        ended=how,
        key="" if error.key is None else bytes(error.key).decode("utf-8", "replace"),
        kafka_ms=0 if moment is None else int(moment.timestamp() * 1_000),
        external_id=None if before is None else before.external_id or None,
        search_a=None if before is None else before.search_a or None,
        search_b=None if before is None else before.search_b or None,
        caused_by=None if before is None else before.caused_by or None,
    )


def _before(errors: Sequence[MessageError]) -> dict[tuple[str, int, int], TrackRow]:
    """The newest track of each, where there is one; they are failures of one queue."""
    ids = [error.message_id for error in errors if error.message_id]
    if not ids:
        return {}
    since = min(error.first_failed_at for error in errors) - AROUND
    until = max(error.last_failed_at for error in errors) + AROUND
    rows = of_messages(ids, errors[0].queue_id, since, until=until)
    return {(row.message_id, row.partition, row.offset): row for row in rows}


def _place(error: MessageError) -> tuple[str, int, int]:
    return error.message_id, error.partition, error.offset
