"""The check whether this worker's consumer takes Celery tasks, as its own loop shows.

A thread beside it lives on when the loop stands still or no longer asks the broker, as after a
connection that broke off at the wrong moment. So the thread that writes the heartbeat only reads
what the loop left here.
"""

import time
from collections.abc import Callable
from queue import Empty
from typing import Any, Final

from celery import bootsteps

# The loop asks the broker anew each second, as the transport bounds every question.
SIGN_EVERY_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 15.0
_ASKING: Final = "BRPOP"


class Signs:
    """Signs of the consumer that it takes tasks. Written by its loop, read by threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last = clock()
        self._is_at_work = False

    def give(self) -> None:
        self._last = self._clock()

    def begin_work(self) -> None:
        """The loop's own thread does something long: it takes and tells nothing meanwhile."""
        self._is_at_work = True

    def end_work(self) -> None:
        self.give()
        self._is_at_work = False

    def silent_seconds(self) -> float:
        return 0.0 if self._is_at_work else self._clock() - self._last

    def are_fresh(self) -> bool:
        """Return whether this worker takes Celery tasks, or would if a slot were free."""
        return self.silent_seconds() < SILENT_SECONDS


signs: Final = Signs()


class SignsOfLife(bootsteps.StartStopStep):
    """A part of Celery's consumer, begun anew with each of its connections to the broker."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, c: Any) -> None:
        handlers = _handlers(c)
        if _ASKING in handlers:
            handlers[_ASKING] = _noting(handlers[_ASKING])

    def register_with_event_loop(self, c: Any, hub: Any) -> None:
        hub.timer.call_repeatedly(SIGN_EVERY_SECONDS, _look, (c,))


def _noting(read: Callable[..., object]) -> Callable[..., object]:
    """Read an answer of the broker, and note that there was one: a task, or none for a second."""

    def notes(*args: object, **options: object) -> object:
        try:
            answer = read(*args, **options)
        except Empty:
            signs.give()
            raise
        signs.give()
        return answer

    return notes


def _look(c: Any) -> None:
    """While every slot is taken nothing is asked of the broker: that the loop turns is enough."""
    if _ASKING not in _handlers(c) or not c.task_consumer.channel.qos.can_consume():
        signs.give()


def _handlers(c: Any) -> dict[str, Callable[..., object]]:
    """Return how the transport of Redis and Valkey reads answers; others have none of these."""
    handlers: dict[str, Callable[..., object]] = getattr(c.task_consumer.channel, "handlers", {})
    return handlers
