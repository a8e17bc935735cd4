"""Why a message that was sent has not arrived: the broken links on the part of its way ahead."""

from copy import copy

from crontasks.health.flow import check_flow
from crontasks.health.links import Link
from integration.models import Queue
from integration.selectors.scope import Scope


def broken_ahead(queue: Queue, scope: Scope, *, is_in_kafka: bool) -> list[Link]:
    """What stands between the message and its end: the relay's way first, then the queue's own.

    Asks the broker and the database; empty when every link is as it should be. Raises Django's
    OperationalError when the database does not answer. Names no other queue outside `scope`.
    """
    if not is_in_kafka:
        sending = copy(queue)
        # What leads to Kafka is looked at as for any queue that is sent to.
        sending.direction = Queue.Direction.OUTBOUND
        found = [link for link in check_flow(sending, scope) if not link.ok]
        if found or queue.direction == Queue.Direction.OUTBOUND:
            return found
    return [link for link in check_flow(queue, scope) if not link.ok]
