"""The parts of a worker's main process beside its consumer, from ready to shutdown."""

import os
import threading
from typing import Any, Final

from celery import signals

from crontasks.celery_app import app
from crontasks.dispatch import arenas
from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.dispatch.pulse import Pulse
from crontasks.dispatch.requeuing import RequeuesAtShutdown
from crontasks.dispatch.stalled import StallWatch
from crontasks.dispatch.watcher import Watcher
from crontasks.health.consumer import SignsOfLife, signs
from crontasks.health.live_processes import SPARK
from crontasks.hearts import Heart, worker_node
from crontasks.running import shutdown
from integration.store import watchdog
from integration.tracing import spans

# What Celery's workers would tell each other. Nobody here reads it, and while the broker does not
# answer they would send it again and again in the consumer's own loop, without an end.
SILENT: Final = {"without_gossip": True, "without_mingle": True, "without_heartbeat": True}
_residents: list[Dispatcher | Watcher | Pulse | StallWatch] = []
_main: set[int] = set()


def connect() -> None:
    """Listen to Celery's signals; called once when Django is set up. Starts nothing."""
    signals.worker_init.connect(before_fork, dispatch_uid="sluice-before-fork")
    signals.worker_process_init.connect(after_fork, dispatch_uid="sluice-after-fork")
    signals.worker_process_shutdown.connect(before_end, dispatch_uid="sluice-before-end")
    signals.task_prerun.connect(begin_task, dispatch_uid="sluice-task-begins")
    signals.task_postrun.connect(end_task, dispatch_uid="sluice-task-ended")
    signals.worker_ready.connect(begin, dispatch_uid="sluice-resident")
    signals.worker_shutting_down.connect(end, dispatch_uid="sluice-shutdown")


def before_fork(sender: Any, **_: Any) -> None:
    if sender.app is not app:
        # A worker of another Celery app in the project: nothing here is its business.
        return
    _main.add(os.getpid())
    arenas.share_one()
    sender.options.update(SILENT)
    sender.app.steps["consumer"].update({SignsOfLife, RequeuesAtShutdown})
    shutdown.share()


def after_fork(**_: Any) -> None:
    """The pool replaces a process that ended: one that hangs may end itself.

    A pool that forks none says so in the main process, which nothing of ours replaces.
    """
    if _main and os.getpid() not in _main:
        watchdog.own_this_process()


def before_end(**_: Any) -> None:
    """A process of the pool ends by itself, without what Python does at an end."""
    spans.close()


def begin_task(**_: Any) -> None:
    """A pool of one that forks nothing, as the Spark driver's, works in the consumer's thread."""
    if _main and threading.current_thread() is threading.main_thread():
        signs.begin_work()


def end_task(**_: Any) -> None:
    if _main and threading.current_thread() is threading.main_thread():
        signs.end_work()


def begin(sender: Any, **_: Any) -> None:
    """The pool is forked: now threads and sessions may exist in the main process."""
    if sender.app is not app:
        return
    heart = Heart(
        kind="worker",
        node=worker_node(sender.hostname),
        slots=int(sender.pool.num_processes),
        queues=",".join(sorted(sender.app.amqp.queues.consume_from)),
        takes=signs.are_fresh,
    )
    signs.give()
    _residents.append(StallWatch(signs, end))
    if heart.queues == SPARK:
        _residents.append(Pulse(heart))
    else:
        dispatcher = Dispatcher(heart)
        _residents.extend([dispatcher, Watcher(dispatcher)])
    for resident in _residents:
        resident.start()


def end(**_: Any) -> None:
    """Runs inside a signal handler: sets flags, waits for nothing."""
    if not _main:
        return
    shutdown.announce()
    for resident in _residents:
        resident.stop()
