"""Threads that make calls, so that a call that hangs holds nobody but itself."""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from integration.delivery.sending.values import Intent
from integration.delivery.snapshot import EndpointSnapshot
from integration.endpoints.port import Answer, Deliverer, OutboundMessage


@dataclass(slots=True, eq=False)
class Call:
    """One call of an endpoint with the messages in it, and later its answers."""

    deliverer: Deliverer
    endpoint: EndpointSnapshot
    intents: list[Intent] = field(default_factory=list)
    messages: list[OutboundMessage] = field(default_factory=list)
    keys: frozenset[bytes] = frozenset()
    is_probe: bool = False
    started: float = 0.0
    answers: Sequence[Answer] = ()
    took_seconds: float = 0.0
    failure: BaseException | None = field(default=None, repr=False)


class CallThreads:
    """Threads, as many as calls may be in flight. The owner of the database never waits in one.

    A thread whose call is overdue is given up: another takes its place, and what it may still
    come back with is dropped.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.monotonic = monotonic
        self.in_flight: set[Call] = set()
        self._todo: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Call] = queue.SimpleQueue()
        self._threads = 0
        self._given_up = 0

    def start(self, call: Call) -> None:
        call.started = self.monotonic()
        self.in_flight.add(call)
        if self._threads < len(self.in_flight):
            self._threads += 1
            name = f"call-{self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        self._todo.put(call)

    def make(self, call: Call) -> None:
        """Make a call in the caller's own thread: for one that ends in time by itself."""
        call.started = self.monotonic()
        self.in_flight.add(call)
        self._end(call, Exception)

    def finished(self, wait_seconds: float) -> list[Call]:
        """Calls that have ended, waiting up to `wait_seconds` for the first of them."""
        ended: list[Call] = []
        try:
            while True:
                call = self._done.get(timeout=0 if ended else max(wait_seconds, 0))
                if call in self.in_flight:
                    self.in_flight.remove(call)
                    ended.append(call)
        except queue.Empty:
            return ended

    def overdue(self, seconds: float) -> list[Call]:
        """Give up calls that take longer than `seconds`; they are not in flight any more."""
        now = self.monotonic()
        late = [call for call in self.in_flight if now - call.started > seconds]
        for call in late:
            self.in_flight.remove(call)
            self._threads -= 1
            self._given_up += 1
        return late

    def give_up(self) -> None:
        """Give up all calls: the batch that made them is over, and the next takes no answer."""
        self.overdue(float("-inf"))

    def close(self) -> None:
        """Let the threads end after the call they are in; those given up, too, if it ever ends."""
        for _ in range(self._threads + self._given_up):
            self._todo.put(None)
        self._threads = self._given_up = 0

    def _work(self) -> None:
        while (call := self._todo.get()) is not None:
            self._end(call, BaseException)

    def _end(self, call: Call, caught: type[BaseException]) -> None:
        """Make the call; a deliverer that raises any of these breaks its promise."""
        began = time.monotonic()
        try:
            call.answers = call.deliverer.deliver(call.messages)
        except caught as e:
            call.failure = e
        call.took_seconds = time.monotonic() - began
        self._done.put(call)
