"""Sends messages over a link of an AMQP connection, many at a time; tells what came of each."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import count
from typing import Any, Final, NamedTuple

from proton import UNDESCRIBED, Array, Data, Delivery, Link, symbol

from integration.amqp.connection import AmqpConnection, EndedError, has_address, words_of

TOO_LARGE: Final = "amqp:link:message-size-exceeded"
# A broker that refuses a link opens it first, without a target, and says why a moment later.
REASON_SECONDS: Final = 1.0
# Ours, where AMQP has none: the time was over.
NO_ANSWER: Final = "no answer"
# So much is given to the engine before it is written: the broker works on it while we go on.
PIECE_BYTES: Final = 32 * 1_024
# All that may become of a message; a broker that is told of none may know of accepting alone.
_OUTCOMES: Final = Array(
    UNDESCRIBED,  # type: ignore[arg-type] # its own word for "no descriptor"
    Data.SYMBOL,
    *(symbol(f"amqp:{name}:list") for name in ("accepted", "rejected", "released", "modified")),
)


class Ending(StrEnum):
    """What became of a message, in AMQP's words but for the last two."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"
    MODIFIED = "modified"
    NOT_SENT = "not sent"
    UNKNOWN = "unknown"


class Outcome(NamedTuple):
    """An ending, AMQP's condition for it if one was given, and words about it."""

    ending: Ending
    condition: str = ""
    text: str = ""


_ENDINGS: Final = {
    Delivery.ACCEPTED: Ending.ACCEPTED,
    Delivery.REJECTED: Ending.REJECTED,
    Delivery.RELEASED: Ending.RELEASED,
    Delivery.MODIFIED: Ending.MODIFIED,
}
# What nearly all come to; a broker gives no reason for it.
_TAKEN: Final = Outcome(Ending.ACCEPTED)


class SendingLink:
    """A link to one address, on a connection of its own."""

    def __init__(
        self, connection: AmqpConnection, address: str, *, kind: str, seconds: float
    ) -> None:
        """Open it; `kind` is "queue" or "topic". Raises TimeoutError, EndedError."""
        ends_at = time.monotonic() + seconds
        self._connection = connection
        self._tags = count()
        self._link = connection.session.sender(f"sluice-{address}")
        self._link.target.address = address
        self._link.source.address = address
        self._link.source.outcomes.put_object(_OUTCOMES)
        # A broker that makes addresses by itself would choose the kind otherwise.
        self._link.target.capabilities.put_object(symbol(kind))
        self._link.snd_settle_mode = Link.SND_UNSETTLED
        connection.open(self._link, seconds)
        if not has_address(self._link.remote_target):
            # It raises what the broker gives as its reason.
            connection.until(lambda: False, min(ends_at - time.monotonic(), REASON_SECONDS))

    def send(self, messages: Iterable[bytes], seconds: float) -> list[Outcome]:
        """Send encoded messages, and return what became of each. Never raises.

        Each is taken from `messages` when its turn comes, also where it cannot be sent any more.
        After an ending of UNKNOWN or NOT_SENT the connection is of no use any more.
        """
        ends_at = time.monotonic() + seconds
        left = iter(messages)
        deliveries: list[Any] = []
        refused: dict[int, Outcome] = {}
        condition, why = "", "it was settled without a word"
        try:
            self._give(left, deliveries, refused, ends_at)
            self._connection.until(_all_over(deliveries), ends_at - time.monotonic())
        except TimeoutError as problem:
            condition, why = NO_ANSWER, str(problem)
        except EndedError as problem:
            condition, why = problem.condition, str(problem)
        deliveries += (None for _ in left)
        return [
            refused.get(at) or _outcome(delivery, condition, why)
            for at, delivery in enumerate(deliveries)
        ]

    def is_usable(self) -> bool:
        """Return whether nothing has ended it, as far as the broker has said."""
        try:
            self._connection.hear()
        except EndedError:
            return False
        return True

    def _give(
        self,
        messages: Iterator[bytes],
        deliveries: list[Any],
        refused: dict[int, Outcome],
        ends_at: float,
    ) -> None:
        """Give them to the engine, a piece at a time: what it does not have yet was not sent."""
        unwritten = 0
        for at, message in enumerate(messages):
            deliveries.append(None)
            if too_large := self._too_large(message):
                refused[at] = too_large
                continue
            if unwritten > PIECE_BYTES:
                self._connection.write(ends_at - time.monotonic())
                unwritten = 0
            if self._link.credit <= 0:
                self._connection.until(lambda: self._link.credit > 0, ends_at - time.monotonic())
            deliveries[at] = self._given(message)
            unwritten += len(message)

    def _given(self, message: bytes) -> Any:
        delivery = self._link.delivery(str(next(self._tags)))
        self._link.stream(message)
        self._link.advance()
        return delivery

    def _too_large(self, message: bytes) -> Outcome | None:
        most = self._link.remote_max_message_size
        if not most or len(message) <= most:
            return None
        text = f"it has {len(message):,} bytes, and the broker takes {most:,}"
        return Outcome(Ending.REJECTED, TOO_LARGE, text)


def _all_over(deliveries: Sequence[Any]) -> Callable[[], bool]:
    """Tell, as often as asked, whether each has ended; what has is looked at once."""
    left = [delivery for delivery in reversed(deliveries) if delivery is not None]

    def is_so() -> bool:
        while left and (left[-1].settled or left[-1].remote_state in _ENDINGS):
            left.pop()
        return not left

    return is_so


def _outcome(delivery: Any, condition: str, why: str) -> Outcome:
    """What became of one: as the broker says, else for what it all ended."""
    if delivery is None:
        return Outcome(Ending.NOT_SENT, condition, why)
    ending = _ENDINGS.get(delivery.remote_state)
    if ending is None:
        return Outcome(Ending.UNKNOWN, condition, why)
    if ending is Ending.ACCEPTED:
        delivery.settle()
        return _TAKEN
    said = words_of(delivery.remote, "condition")
    delivery.settle()
    return Outcome(ending, *said)
