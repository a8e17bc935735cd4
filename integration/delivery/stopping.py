"""Stops that people ask for: nothing at or beyond an offset is applied until a person resumes.

The commit itself refuses to take the position beyond a stop, so that a batch which is in work when
somebody asks is cut, too: it is rolled back, read again, and ends before the stop.
"""

from collections.abc import Sequence
from typing import Final

from integration.delivery.batch_result import RUNNING
from integration.delivery.context import RunContext
from integration.delivery.owned import Owned
from integration.policy.states import PartitionState
from integration.values import Record

PAUSED: Final = "The queue has reached where it was told to stop, and is paused."


def before_stop(owned: Owned, records: Sequence[Record]) -> Sequence[Record]:
    """Return the records before the stop: all of them where there is none."""
    stop = owned.stop_at
    if stop is None or records[-1].offset < stop:
        return records
    return [record for record in records if record.offset < stop]


def arrive(context: RunContext, owned: Owned, before: Sequence[Record]) -> None:
    """Take the position to the stop once the last records before it are through.

    Markers of transactions may lie between them and the stop.
    """
    if owned.stop_at is None or owned.at_stop or owned.state is not PartitionState.RUNNING:
        return
    is_through = not before or owned.next_offset > before[-1].offset
    if is_through and context.repository.state(owned, RUNNING, owned.stop_at):
        owned.next_offset = owned.stop_at


def was_cut(context: RunContext, owned: Owned) -> bool:
    """Return whether a commit was refused for a stop alone: then the partition is still ours."""
    return not context.manager.is_lost() and bool(context.repository.read_stops([owned]))


def pauses(context: RunContext, held: Sequence[Owned]) -> bool:
    """Pause the queue if the last of its stops was reached by now; returns whether it did."""
    news = [owned for owned in held if owned.at_stop and owned.stop_told != owned.stop_at]
    for owned in news:
        owned.stop_told = owned.stop_at
    return bool(news) and context.repository.pause_at_stops(news[0])
