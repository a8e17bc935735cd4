"""Looks that have to wait for a transaction of somebody else, who perhaps is dead."""

from collections.abc import Callable
from typing import Final, TypeVar

from integration.kafka.client import Connection
from integration.kafka.slots import Slot
from integration.kafka.upto import StalledError, TopicReader
from integration.xa.errors import XaUnavailableError
from integration.xa.side_topic import about_of

T = TypeVar("T")

# Ours are open for as long as Kafka takes to have what was sent; an application's code does not run
# meanwhile. Whoever takes longer is dead, stands still, or is slow: a fence takes nothing
# from it but this one try.
PATIENCE_SECONDS: Final = 2.0
MOST_FENCES: Final = 8


class Stalls:
    """Ends a transaction that a look waits for: fences the id under which it was begun."""

    def __init__(self, name: str, to: Connection, prefix: str) -> None:
        self._name, self._to, self._prefix = name, to, prefix
        self.patience = PATIENCE_SECONDS

    def through(self, look: Callable[[float], T]) -> T:
        """Call `look` with the seconds it may wait, until it is through.

        Raises XaUnavailableError where somebody else's transaction is in the way.
        """
        for _ in range(MOST_FENCES):
            try:
                return look(self.patience)
            except StalledError as stalled:
                self._fence(stalled)
        raise XaUnavailableError(self._name, "transactions are open again and again")

    def _fence(self, stalled: StalledError) -> None:
        owner = self._owner(stalled)
        if not owner.startswith(self._prefix):
            raise XaUnavailableError(self._name, str(stalled)) from stalled
        Slot(self._name, self._to, {}, owner).close()

    def _owner(self, stalled: StalledError) -> str:
        """Whose transaction it is, as the first of its records says."""
        reader = TopicReader(self._to, stalled.topic, committed_only=False)
        try:
            place = stalled.partition, stalled.offset, stalled.offset + 1
            message = next(reader.records(*place), None)
        finally:
            reader.close()
        return "" if message is None else about_of(message).get("owner", "")
