"""Messages of a receiving link, put together from their pieces."""

from typing import Any, NamedTuple


class Received(NamedTuple):
    """A message as it came, and the delivery by which it is accepted."""

    delivery: Any
    data: bytes


class Incoming:
    """What the engine holds of one link. A large message comes in pieces."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._pieces: list[bytes] = []

    @property
    def has_one(self) -> bool:
        """Return whether there is a message, or the beginning of one."""
        return self._link.current is not None

    @property
    def has_more(self) -> bool:
        """Return whether `next` would come further than it did."""
        delivery = self._link.current
        return delivery is None or bool(delivery.pending) or not delivery.partial

    @property
    def begun(self) -> int:
        """So many bytes are there of a message of which more is to come."""
        return sum(map(len, self._pieces))

    def next(self) -> Received | None:
        """Return the next message if all of it is there."""
        delivery = self._link.current
        if delivery is None:
            return None
        if delivery.aborted:
            self._pieces.clear()
            delivery.settle()
            return None
        while (pending := delivery.pending) > 0:
            self._pieces.append(self._link.recv(pending))
        if delivery.partial:
            return None
        data, self._pieces = b"".join(self._pieces), []
        self._link.advance()
        return Received(delivery, data)
