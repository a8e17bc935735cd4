"""A worker process for crash tests: runs one queue and dies or stops where it is told to.

`python -m tests.support.crash_child QUEUE_ID STEP NTH SIGNAL`: when the run reaches STEP for the
NTH time, the process sends itself SIGNAL (KILL or STOP). STEP `none` runs to the end.
"""

import os
import signal
import sys

import django


class Fatal:
    """The observer that ends its own process at a chosen step."""

    def __init__(self, step: str, nth: int, name: str) -> None:
        self.step_name = step
        self.left = nth
        self.signal = signal.Signals[f"SIG{name}"]

    def step(self, step: str) -> None:
        if step == self.step_name:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), self.signal)


def main() -> None:
    queue_id, step, nth, name = sys.argv[1:5]
    django.setup()
    from integration.runs.queues import run_queue  # noqa: PLC0415 - Django is set up first

    report = run_queue(int(queue_id), observer=Fatal(step, int(nth), name))
    print(report.ending, dict(report.counts), report.text)


if __name__ == "__main__":
    main()
