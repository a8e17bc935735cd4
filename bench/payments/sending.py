"""The store of the payment run: two doors, each with its requests, at a steady pace."""

import contextlib
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench import jms
from bench.faults.sending import Lasting, Sender
from devstack.artemis import Artemis
from payments import names
from payments.requests import Sent

TICK_SECONDS: Final = 0.5
# The broker may be away for some time; then its start has failed.
TAKEN_WITHIN_SECONDS: Final = 240.0
FLUSH_SECONDS: Final = 10.0
AWAY_SECONDS: Final = 0.5


class Door(Sender):
    """Sends all its requests, each until it is told to have arrived.

    `sent_again` counts those that may have arrived before.
    """

    def __init__(self, name: str, requests: Sequence[Sent], seconds: float) -> None:
        super().__init__(name)
        self.requests = requests
        self.seconds = seconds
        self.sent_again = 0

    def work(self) -> None:
        began, gone = time.monotonic(), 0
        while gone < len(self.requests) and not self.ending.is_set():
            share = min((time.monotonic() - began) / self.seconds, 1.0)
            due = round(share * len(self.requests))
            self.send(self.requests[gone:due])
            gone = due
            self.ending.wait(TICK_SECONDS)
        self.finish()

    @abstractmethod
    def send(self, requests: Sequence[Sent]) -> None:
        """Send these, in order."""

    @abstractmethod
    def finish(self) -> None:
        """Return when all that was sent has arrived. Raises TimeoutError."""


class KafkaDoor(Door):
    """By an idempotent producer; what it could not deliver is sent by its next one."""

    def __init__(self, bootstrap: str, requests: Sequence[Sent], seconds: float) -> None:
        super().__init__("by kafka", requests, seconds)
        self._producer = Lasting(bootstrap)
        self._undelivered: deque[Sent] = deque()

    def send(self, requests: Sequence[Sent]) -> None:
        while self._undelivered:
            self.sent_again += 1
            self._put(self._undelivered.popleft())
        for sent in requests:
            self._put(sent)

    def finish(self) -> None:
        until = time.monotonic() + TAKEN_WITHIN_SECONDS
        while self._producer.flush(FLUSH_SECONDS) or self._undelivered:
            if time.monotonic() > until:
                raise TimeoutError("Kafka has not taken every request")
            self.send(())

    def _put(self, sent: Sent) -> None:
        self._producer.put(
            names.TOPICS[names.REQUESTS],
            sent.value,
            key=sent.payment.encode(),
            headers=list(sent.headers),
            on_delivery=self._reported(sent),
        )

    def _reported(self, sent: Sent) -> Callable[[Any, Any], None]:
        def note(error: object, _message: object) -> None:
            with contextlib.suppress(Exception):
                if error is not None:
                    self._undelivered.append(sent)

        return note


class JmsDoor(Door):
    """As a JMS client does: what the broker has not answered for is sent again under its id."""

    def __init__(self, broker: Artemis, requests: Sequence[Sent], seconds: float) -> None:
        super().__init__("by jms", requests, seconds)
        self._broker = broker

    def send(self, requests: Sequence[Sent]) -> None:
        waiting = [(sent.message_id, sent.value.decode()) for sent in requests]
        until = time.monotonic() + TAKEN_WITHIN_SECONDS
        while True:
            left = jms.send(self._broker, names.JMS_ADDRESS, waiting)
            if not any(left):
                return
            if time.monotonic() > until:
                raise TimeoutError("the JMS broker has not taken every request")
            self.sent_again += len(left.unanswered)
            waiting = [*left.unanswered, *left.unsent]
            time.sleep(AWAY_SECONDS)

    def finish(self) -> None:
        """Nothing is left: `send` returns when all have arrived."""
