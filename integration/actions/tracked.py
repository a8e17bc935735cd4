"""The track of an ending that a person decided, as the engine writes those that it meets."""

from integration.models import MessageError, MessageTrack
from integration.policy.states import Ended
from integration.selectors.tracking.rows import by_index, whole
from integration.store.sessions import next_arrival


def ended(error: MessageError, how: Ended) -> None:
    """Write how the message of a failure ended, where its queue is tracked.

    In the caller's transaction, beside the line of history that says who decided. What the engine
    found to search by is taken over from the newest track of the message's place.
    """
    if not error.queue.tracks:
        return
    before = _before(error)
    moment = error.kafka_timestamp
    MessageTrack.objects.create(
        queue=error.queue,
        partition=error.partition,
        offset=error.offset,
        # A number of its own: those of one time lie close together, and tracking is read by that.
        arrival_batch=next_arrival(),
        message_id=error.message_id,
        interface=error.interface,
        ended=how,
        key="" if error.key is None else bytes(error.key).decode("utf-8", "replace"),
        kafka_ms=0 if moment is None else int(moment.timestamp() * 1_000),
        external_id=None if before is None else before.external_id,
        search_a=None if before is None else before.search_a,
        search_b=None if before is None else before.search_b,
        caused_by=None if before is None else before.caused_by,
    )


def _before(error: MessageError) -> MessageTrack | None:
    if not error.message_id:
        return None
    queues = {error.queue_id: (error.queue.name, error.queue.direction)}
    rows = by_index(["t.message_id = %(id)s"], {"id": error.message_id}, queues)
    place = (error.partition, error.offset)
    here = [row for row in rows if (row.partition, row.offset) == place]
    newest = max(here, key=lambda row: row.place, default=None)
    return None if newest is None else whole(newest)
