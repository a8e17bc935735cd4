"""The rule by which a queue may be asked to run, for all who ask, in SQL over a queue `q`.

A request is the time in the queue's `start_requested_at`; the run clears it once it owns a
partition. One that stands longer than ten seconds may be lost on its way and is sent again.
"""

from typing import Final

from integration.store import deployments
from integration.store.sessions import execute

RESEND_SECONDS: Final = 10
# A queue whose messages go to endpoints. What a target got before it was switched off counts.
SENDS: Final = """(
        q.direction = 'outbound' AND (q.endpoint_id IS NOT NULL OR EXISTS (
            SELECT 1 FROM integration_channeltarget t
            WHERE t.queue_id = q.id AND t.endpoint_id IS NOT NULL))
    )"""
# The condition that it has a position here.
IS_READ: Final = f"(q.direction = 'inbound' OR {SENDS})"
IS_WANTED: Final = (
    f"(q.enabled AND NOT q.paused AND {IS_READ} AND NOT {deployments.holds_queue('q.id')})"
)
LEAVE: Final = f"""
    UPDATE integration_queue q SET start_requested_at = clock_timestamp()
    WHERE q.id = %s AND {IS_WANTED} AND q.start_requested_at IS NULL"""


def leave_request(queue_id: int) -> bool:
    """Leave a request for the dispatcher; False when none is wanted or one stands."""
    return execute(LEAVE, [queue_id]) == 1
