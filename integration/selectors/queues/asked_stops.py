"""The stop that a queue was told to make: who asked, how far it is, and what it leaves."""

from dataclasses import dataclass
from typing import Final

from integration.models import MessageError, QueueChange
from integration.policy.states import ErrorState
from integration.selectors.queues.partitions import PartitionRow
from integration.selectors.queues.rows import QueueRow
from integration.store.queue_stops import DRAIN

# More is shown as "1,000+": counting on costs time.
CAP: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedStop:
    """`asked` is None when the history no longer has it. `places` are the partitions with a stop.

    `retrying` and `released` failures are no part of it: what of them is not tried by then waits
    until the queue is resumed.
    """

    asked: QueueChange | None
    places: tuple[PartitionRow, ...]
    retrying: int
    released: int

    @property
    def is_drain(self) -> bool:
        return self.asked is not None and self.asked.action == DRAIN

    @property
    def left(self) -> int:
        """The offsets before the stops: at most so many messages."""
        return sum(max(0, (row.stop_at or 0) - row.next_offset) for row in self.places)

    @property
    def reached(self) -> int:
        return sum(row.is_at_stop for row in self.places)

    @property
    def stuck(self) -> tuple[PartitionRow, ...]:
        """Those that cannot come to their stop until somebody acts on what stands before it."""
        return tuple(r for r in self.places if not r.is_at_stop and r.status.needs_a_person)


def asked_stop(row: QueueRow) -> AskedStop | None:
    """The stop that stands, in at most three queries; None, and no query, without one."""
    places = tuple(one for one in row.partitions if one.stop_at is not None)
    if not places:
        return None
    newest = max((one.stop_request or 0 for one in places), default=0)
    return AskedStop(
        asked=QueueChange.objects.filter(pk=newest).first(),
        places=places,
        retrying=_open(row, ErrorState.RETRY),
        released=_open(row, ErrorState.READY),
    )


def _open(row: QueueRow, state: ErrorState) -> int:
    return MessageError.objects.filter(queue=row.id, state=state).order_by()[: CAP + 1].count()
