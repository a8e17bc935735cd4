"""Asks for a run of a queue, so that a decision takes effect at once."""

from integration.store import starts


def ask_for_start(queue_id: int) -> bool:
    """Leave a request for the dispatcher; False when none is wanted or a recent one stands."""
    return starts.leave_request(queue_id)
