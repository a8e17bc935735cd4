"""An endpoint in memory: takes what it gets, or answers by a script. Its shelf is what arrived."""

import threading
from collections.abc import Callable, Iterable, Sequence

from integration.endpoints.port import Accepted, Answer, Parcel


class Shelf:
    """What arrived, in the order of arrival, repeats included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.parcels: list[Parcel] = []

    def put(self, parcels: Iterable[Parcel]) -> None:
        with self._lock:
            self.parcels += parcels

    @property
    def ids(self) -> list[str]:
        """Message ids as they arrived first; repeats are dropped."""
        return list(dict.fromkeys(parcel.message_id for parcel in self.parcels))


class MemoryDeliverer:
    """See port.Deliverer. `script` says what a message is answered; None: it is accepted.

    What it answers other than Accepted has not arrived, except where the script says so by
    putting it on the shelf itself.
    """

    def __init__(
        self,
        shelf: Shelf | None = None,
        script: Callable[[Parcel], Answer | None] = lambda _: None,
        at_once: int = 1,
    ) -> None:
        self.shelf = shelf or Shelf()
        self.script = script
        self.at_once = at_once
        self.within_seconds: float | None = None
        self.is_closed = False
        self.calls = 0

    def deliver(self, parcels: Sequence[Parcel]) -> Sequence[Answer]:
        self.calls += 1
        return [self._one(parcel) for parcel in parcels]

    def _one(self, parcel: Parcel) -> Answer:
        answer = self.script(parcel) or Accepted()
        if isinstance(answer, Accepted):
            self.shelf.put([parcel])
        return answer

    def connect(self) -> Answer:
        return Accepted()

    def close(self) -> None:
        self.is_closed = True
