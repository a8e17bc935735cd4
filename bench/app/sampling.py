"""A profile of the pool process that runs a queue: what its main thread does, 1,000 times a second.

Switched on by BENCH_PROFILE=folder. Sampling by a timer of the operating system costs about one
part in a hundred, whereas a tracing profiler doubles the time of small functions and so lies
about where it goes.
"""

import collections
import os
import signal
from pathlib import Path
from types import FrameType
from typing import Any, Final

from celery import signals

VARIABLE: Final = "BENCH_PROFILE"
EVERY_SECONDS: Final = 0.001
DEEPEST: Final = 60
_stacks: collections.Counter[tuple[str, ...]] = collections.Counter()


def connect() -> None:
    if VARIABLE in os.environ:
        signals.task_prerun.connect(begin, dispatch_uid="bench-sampling-begin")
        signals.task_postrun.connect(end, dispatch_uid="bench-sampling-end")


def begin(task: Any, **_: Any) -> None:  # noqa: ANN401 - Celery's signature
    if task.name == "crontasks.tasks.run_queue":
        _stacks.clear()
        signal.signal(signal.SIGALRM, _sample)
        signal.siginterrupt(signal.SIGALRM, False)
        signal.setitimer(signal.ITIMER_REAL, EVERY_SECONDS, EVERY_SECONDS)


def end(task: Any, **_: Any) -> None:  # noqa: ANN401 - Celery's signature
    if task.name == "crontasks.tasks.run_queue":
        signal.setitimer(signal.ITIMER_REAL, 0)
        file = Path(os.environ[VARIABLE]) / f"stacks-{os.getpid()}.txt"
        with file.open("a") as out:
            for stack, count in _stacks.items():
                out.write(f"{';'.join(stack)} {count}\n")


def _sample(_: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None and len(stack) < DEEPEST:
        code = frame.f_code
        name = code.co_filename.rpartition("site-packages/")[2].rpartition("/main/")[2]
        stack.append(f"{name}:{frame.f_lineno}:{code.co_qualname}")
        frame = frame.f_back
    _stacks[tuple(reversed(stack))] += 1
