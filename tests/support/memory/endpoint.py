"""An endpoint in memory: takes what it gets, or answers by a script. Its shelf is what arrived."""

import threading
from collections.abc import Callable, Iterable, Sequence

from integration.endpoints.port import Accepted, Answer, OutboundMessage


class Shelf:
    """What arrived, in the order of arrival, repeats included."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.messages: list[OutboundMessage] = []

    def put(self, messages: Iterable[OutboundMessage]) -> None:
        with self._lock:
            self.messages += messages

    @property
    def ids(self) -> list[str]:
        """Message ids as they arrived first; repeats are dropped."""
        return list(dict.fromkeys(message.message_id for message in self.messages))


class MemoryDeliverer:
    """See port.Deliverer. `script` says what a message is answered; None: it is accepted.

    What it answers other than Accepted has not arrived, except where the script says so by
    putting it on the shelf itself.
    """

    def __init__(
        self,
        shelf: Shelf | None = None,
        script: Callable[[OutboundMessage], Answer | None] = lambda _: None,
        at_once: int = 1,
    ) -> None:
        self.shelf = shelf or Shelf()
        self.script = script
        self.at_once = at_once
        self.within_seconds: float | None = None
        self.is_closed = False
        self.calls = 0

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        self.calls += 1
        return [self._one(message) for message in messages]

    def _one(self, message: OutboundMessage) -> Answer:
        answer = self.script(message) or Accepted()
        if isinstance(answer, Accepted):
            self.shelf.put([message])
        return answer

    def connect(self) -> Answer:
        return Accepted()

    def close(self) -> None:
        self.is_closed = True
