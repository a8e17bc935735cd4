"""A worker process that sends, and dies or stops where it is told to; its partner is a file.

`python -m tests.support.sending_child QUEUE_ID FILE STEP NTH SIGNAL`: the partner writes each
message id that arrives as a line of FILE. STEP is one of the run's steps, `arrived` (the partner
has the message, its answer is not there yet), or `none` to run to the end. With `-` for FILE the
queue's own endpoint is the partner.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import django

from integration.endpoints.port import Accepted, Answer, OutboundMessage
from tests.support.crash_child import Fatal


class FilePartner:
    """See endpoints.port.Deliverer. What arrived is in the file, whoever dies."""

    at_once = 1
    within_seconds: float | None = None

    def __init__(self, path: Path, fatal: Fatal | None = None) -> None:
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.fatal = fatal
        self.guard = threading.Lock()

    def deliver(self, messages: Sequence[OutboundMessage]) -> Sequence[Answer]:
        for message in messages:
            with self.guard:
                os.write(self.file, f"{message.message_id}\n".encode())
                if self.fatal is not None:
                    self.fatal.step("arrived")
        return [Accepted()] * len(messages)

    def connect(self) -> Answer:
        return Accepted()

    def close(self) -> None:
        return


def main() -> None:
    queue_id, path, step, nth, name = sys.argv[1:6]
    django.setup()
    from integration.runs.queues import run_queue  # noqa: PLC0415 - Django is set up first

    assert name in {known.name.removeprefix("SIG") for known in signal.Signals}
    fatal = Fatal(step, int(nth), name)
    if path == "-":
        report = run_queue(int(queue_id), observer=fatal)
    else:
        partner = FilePartner(Path(path), fatal)
        report = run_queue(int(queue_id), observer=fatal, endpoints=lambda _: partner)
    print(report.ending, dict(report.counts), report.text)


if __name__ == "__main__":
    main()
