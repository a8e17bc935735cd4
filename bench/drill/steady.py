"""What goes on at a steady pace while something else goes wrong."""

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from bench import traffic

MOST_TOLD: Final = 3


@dataclass
class Steadily:
    """Does one thing every so many seconds, in a thread of its own, for as long as the block.

    The deed raises when it went wrong. `took` has the seconds of each, good or not.
    """

    every: float
    deed: Callable[[], object]
    took: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._ending.wait(max(0.0, due - time.monotonic())):
            began = time.monotonic()
            try:
                self.deed()
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is counted
                self.failures.append(f"{type(failure).__name__}: {failure}"[:200])
            self.took.append(time.monotonic() - began)
            # What took long is not made up for: that would be another load.
            due = max(due + self.every, began)

    def figures(self, name: str) -> dict[str, object]:
        """Its part of a drill's line."""
        return {
            **spread(name, self.took),
            f"{name}_failed": len(self.failures),
            **({f"{name}_failures": self.failures[:MOST_TOLD]} if self.failures else {}),
        }


class Pings:
    """Numbered messages for the handler BenchPing, each with the time of its sending."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self._producer = traffic.producer(bootstrap)

    def send(self) -> None:
        """Write the next one. Raises TimeoutError when Kafka does not take it."""
        self._producer.produce(self.topic, ping(self.sent))
        self.sent += 1
        if self._producer.flush(10):
            raise TimeoutError(f"Kafka did not take a message of {self.topic}")


def ping(number: int, sent_at: float | None = None) -> bytes:
    """A message that its handler writes down as it comes."""
    return b'{"seq": %d, "sent_at": %.6f}' % (number, time.time() if sent_at is None else sent_at)


def spread(name: str, seconds: Sequence[float]) -> dict[str, object]:
    """How many there were, their median and the longest, as figures of a line."""
    return {
        f"{name}_count": len(seconds),
        f"{name}_median": round(statistics.median(seconds), 3) if seconds else None,
        f"{name}_longest": round(max(seconds), 3) if seconds else None,
    }
