"""Threads in which handler transactions of one batch are tried side by side."""

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from integration.delivery.attempt import Fenced, Settled
from integration.delivery.handler_transaction import FailedAt
from integration.delivery.parts import Part, Todo


@dataclass(slots=True, eq=False)
class Turn:
    """One transaction of a thread: what it tries, and later what came of it.

    `failure` is what it raised; nothing is known of its part then.
    """

    todo: Todo
    part: Part
    act: Callable[[], Settled | FailedAt | Fenced]
    result: Settled | FailedAt | Fenced | None = None
    failure: BaseException | None = None

    def take(self) -> None:
        try:
            self.result = self.act()
        except BaseException as e:  # noqa: BLE001 - the run's own thread raises it
            self.failure = e


class Threads(Protocol):
    """A port: turns that are taken side by side, each on a database session of its thread."""

    def start(self, turn: Turn) -> None:
        """Take this turn beside those under way."""

    def finished(self) -> Turn:
        """Wait for a turn to end, and return it."""

    def wait(self) -> None:
        """Wait until none is under way; what comes of them is dropped."""


class HandlerThreads:
    """As many threads as turns are under way at once; they stay until the run ends.

    `leave` is called in each of them at its end: it closes what belongs to the thread.
    """

    def __init__(self, leave: Callable[[], None]) -> None:
        self.leave = leave
        self._under_way = 0
        self._threads: list[threading.Thread] = []
        self._todo: queue.SimpleQueue[Turn | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Turn] = queue.SimpleQueue()

    def start(self, turn: Turn) -> None:
        self._under_way += 1
        if len(self._threads) < self._under_way:
            name = f"handler-{len(self._threads) + 1}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()
        self._todo.put(turn)

    def finished(self) -> Turn:
        turn = self._done.get()
        self._under_way -= 1
        return turn

    def wait(self) -> None:
        while self._under_way:
            self.finished()

    def close(self) -> None:
        """End the threads, each after the turn it is in; may be called twice."""
        for _ in self._threads:
            self._todo.put(None)
        while self._threads:
            self._threads.pop().join()

    def _work(self) -> None:
        try:
            while (turn := self._todo.get()) is not None:
                turn.take()
                self._done.put(turn)
        finally:
            self.leave()
