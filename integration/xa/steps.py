"""The moments of a branch's life, between two effects. Crash tests end the process at each."""

from collections.abc import Callable
from enum import StrEnum


class XaStep(StrEnum):
    """Reported when it has happened."""

    STARTED = "started"
    SENT = "sent"
    WRITTEN = "written"  # messages are with Kafka, in a transaction that is open
    ENDED = "ended"
    PREPARED = "prepared"
    DECIDED = "decided"  # the database has committed
    MARKED = "marked"  # a log in the database knows that the delivery begins
    COPIED = "copied"  # to their own topics, in a transaction that is open
    DELIVERED = "delivered"  # Kafka has committed; a log in the database does not know yet
    COMMITTED = "committed"
    FORGOTTEN = "forgotten"  # the decision is removed


XaObserver = Callable[[XaStep], None]


def unobserved(_step: XaStep) -> None:
    """Nobody looks."""
