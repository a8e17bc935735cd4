"""Messages of a receiving link, put together from their pieces."""

from typing import Any, Final, NamedTuple

from integration.amqp.connection import EndedError

# PostgreSQL's jsonb takes less, and with its copies a message takes several times as much memory.
LARGEST_BYTES: Final = 256 * 2**20


class TooLargeError(EndedError):
    """A message is larger than any that is read; it is the broker's until somebody removes it."""

    def __init__(self) -> None:
        super().__init__("", f"a message is larger than {LARGEST_BYTES // 2**20:,} MiB")


class Received(NamedTuple):
    """A message as it came, and the delivery by which it is accepted."""

    delivery: Any
    data: bytes


class Incoming:
    """What the engine holds of one link. A large message comes in pieces."""

    def __init__(self, link: Any) -> None:
        self._link = link
        self._pieces: list[bytes] = []
        self._begun = 0

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
        return self._begun

    def next(self) -> Received | None:
        """Return the next message if all of it is there.

        Raises TooLargeError, and from then on always.
        """
        if self._begun > LARGEST_BYTES:
            raise TooLargeError
        delivery = self._link.current
        if delivery is None:
            return None
        if delivery.aborted:
            self._forget()
            delivery.settle()
            return None
        while (pending := delivery.pending) > 0:
            self._pieces.append(self._link.recv(pending))
            self._begun += len(self._pieces[-1])
            if self._begun > LARGEST_BYTES:
                self._pieces.clear()
                raise TooLargeError
        if delivery.partial:
            return None
        data = b"".join(self._pieces)
        self._forget()
        self._link.advance()
        return Received(delivery, data)

    def _forget(self) -> None:
        self._pieces, self._begun = [], 0
