"""Sends the plans' messages side by side, at a steady pace, and remembers where each one lies."""

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench import traffic
from bench.smoke.plan import Plan

PER_SECOND: Final = 400.0


class Sending(threading.Thread):
    """A sender in the background. `offsets` maps (queue, seq) to the offset Kafka gave it."""

    def __init__(self, bootstrap: str, plans: Sequence[Plan]) -> None:
        super().__init__(name="sending", daemon=True)
        self.bootstrap = bootstrap
        self.plans = plans
        self.offsets: dict[tuple[str, int], int] = {}
        self.failure: str | None = None
        self.ending = threading.Event()

    def run(self) -> None:
        writing = traffic.producer(self.bootstrap, **{"linger.ms": 5})
        began = time.monotonic()
        todo = [(plan, seq) for seq in range(self.plans[0].messages) for plan in self.plans]
        for count, (plan, seq) in enumerate(todo):
            if self.ending.is_set():
                return
            writing.produce(
                plan.queue,
                value=plan.payload(seq),
                partition=0,
                on_delivery=self._reported(plan.queue, seq),
            )
            writing.poll(0)
            ahead = count / PER_SECOND - (time.monotonic() - began)
            if ahead > 0:
                time.sleep(ahead)
        if writing.flush(60):
            self.failure = "not every message was written"

    def _reported(self, queue: str, seq: int) -> Callable[[Any, Any], None]:
        def note(error: object, message: Any) -> None:
            with contextlib.suppress(Exception):
                if error is None:
                    self.offsets[queue, seq] = message.offset()
                else:
                    self.failure = str(error)

        return note
