"""Runs an action of Spark while somebody looks at it, and stops its tasks when they say so."""

import queue
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from spark_jobs.errors import JobError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_SECONDS: Final = 0.5
Watch = Callable[[], None]
"""Called about twice a second; what it raises stops the action."""
Answer = TypeVar("Answer")


def watched(session: "SparkSession", group: str, act: Callable[[], Answer], watch: Watch) -> Answer:
    """Return what the action returns, and raise what it or the watch raises.

    `group` names the action's jobs: their tasks are killed when the watch raises.
    """
    from pyspark import InheritableThread  # noqa: PLC0415 - as in session.py

    context = session.sparkContext
    ended: queue.SimpleQueue[Callable[[], Answer]] = queue.SimpleQueue()

    def run() -> None:
        context.setJobGroup(group, "a bulk job", interruptOnCancel=True)
        try:
            answer = act()
        except BaseException as e:  # noqa: BLE001 - raised again in the thread that asked
            ended.put(partial(_raise, e))
        else:
            ended.put(lambda: answer)

    thread = InheritableThread(target=run, daemon=True)
    thread.start()
    try:
        return _awaited(ended, watch)()
    except BaseException:
        _end(context, group, thread)
        raise


def raise_refusal(answers: Iterable[object]) -> None:
    """Raise what a task has refused, if one has: it answers so, lest Spark tries it again."""
    for answer in answers:
        if isinstance(answer, JobError):
            raise answer


def _end(context: "SparkContext", group: str, thread: threading.Thread) -> None:
    """Kill the action's tasks; more than once, for it may have been between two jobs."""
    from py4j.protocol import Py4JError  # noqa: PLC0415 - as in session.py

    while thread.is_alive():
        # Where the JVM is gone there is nothing to be killed, and the action ends by itself.
        with suppress(Py4JError, OSError):
            context.cancelJobGroup(group)
        thread.join(LOOK_SECONDS)


def progress_of(session: "SparkSession", group: str) -> tuple[int, int]:
    """Return how many tasks of the group's jobs have ended, and how many there are."""
    tracker = session.sparkContext.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in () if info is None else info.stageIds:
            stage_info = tracker.getStageInfo(stage)
            if stage_info is not None:
                done, total = done + stage_info.numCompletedTasks, total + stage_info.numTasks
    return done, total


def _awaited(
    ended: "queue.SimpleQueue[Callable[[], Answer]]", watch: Watch
) -> Callable[[], Answer]:
    while True:
        try:
            return ended.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            watch()


def _raise(failure: BaseException) -> NoReturn:
    raise failure
