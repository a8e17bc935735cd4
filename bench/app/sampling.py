"""A profile of the pool process that runs a queue: what its main thread does, 1,000 times a second.

Switched on by BENCH_PROFILE=folder. With BENCH_PROFILE_CLOCK=cpu a sample is taken per millisecond
of the process's own work instead: waiting for servers is left out, and so is what other programs
take from a busy machine. Sampling by a timer of the operating system costs about one
part in a hundred, whereas a tracing profiler doubles the time of small functions and so lies
about where it goes.
"""

import collections
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any, Final

from celery import signals

VARIABLE: Final = "BENCH_PROFILE"
CLOCK_VARIABLE: Final = "BENCH_PROFILE_CLOCK"
_WALL: Final = (signal.ITIMER_REAL, signal.SIGALRM)
_CPU: Final = (signal.ITIMER_PROF, signal.SIGPROF)
EVERY_SECONDS: Final = 0.001
DEEPEST: Final = 60
_began: dict[str, float] = {}
_stacks: collections.Counter[tuple[str, ...]] = collections.Counter()


def connect() -> None:
    if VARIABLE in os.environ:
        signals.task_prerun.connect(begin, dispatch_uid="bench-sampling-begin")
        signals.task_postrun.connect(end, dispatch_uid="bench-sampling-end")


def begin(task: Any, **_: Any) -> None:
    if task.name == "crontasks.tasks.run_queue":
        _stacks.clear()
        _began["at"] = _now()
        timer, number = _clock()
        signal.signal(number, _sample)
        signal.siginterrupt(number, False)
        signal.setitimer(timer, EVERY_SECONDS, EVERY_SECONDS)


def end(task: Any, **_: Any) -> None:
    if task.name == "crontasks.tasks.run_queue":
        signal.setitimer(_clock()[0], 0)
        # The kernel's tick may be longer than what was asked for: what a sample stands for is
        # the time that passed, shared out among the samples.
        each = (_now() - _began["at"]) * 1e6 / max(_stacks.total(), 1)
        file = Path(os.environ[VARIABLE]) / f"stacks-{os.getpid()}.txt"
        with file.open("a") as out:
            for stack, count in _stacks.items():
                out.write(f"{';'.join(stack)} {count * each:.0f}\n")


def _now() -> float:
    return time.process_time() if _clock() is _CPU else time.monotonic()


def _clock() -> tuple[int, signal.Signals]:
    return _CPU if os.environ.get(CLOCK_VARIABLE) == "cpu" else _WALL


def _sample(_: int, frame: FrameType | None) -> None:
    stack: list[str] = []
    while frame is not None and len(stack) < DEEPEST:
        code = frame.f_code
        name = code.co_filename.rpartition("site-packages/")[2].rpartition("/main/")[2]
        stack.append(f"{name}:{frame.f_lineno}:{code.co_qualname}")
        frame = frame.f_back
    _stacks[tuple(reversed(stack))] += 1
