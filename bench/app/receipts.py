"""Notes when this worker received a Celery task; the start of what `tick_to_first_record` times.

The worker's main process writes one line per task into the file that BENCH_RECEIPTS names.
"""

import os
import time
from typing import Any

from celery import signals

VARIABLE = "BENCH_RECEIPTS"


def connect() -> None:
    if VARIABLE in os.environ:
        signals.task_received.connect(note, dispatch_uid="bench-receipts")


def note(request: Any, **_: Any) -> None:
    now = time.time()
    line = f"{now:.6f} {request.name} {request.args[0] if request.args else ''}\n"
    with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:  # noqa: PTH123 - hot enough
        file.write(line)
