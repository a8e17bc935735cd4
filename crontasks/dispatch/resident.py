"""What lives in a worker's main process: the dispatcher and the watch, from ready to shutdown."""

import os
from typing import Any

from celery import signals

from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.dispatch.pulse import Pulse
from crontasks.dispatch.watcher import Watcher
from crontasks.health.crew import SPARK
from crontasks.health.hearts import Heart, worker_node
from crontasks.running import shutdown
from integration.store import watchdog

_residents: list[Dispatcher | Watcher | Pulse] = []
_main: set[int] = set()


def connect() -> None:
    """Listen to Celery's signals; called once when Django is set up. Starts nothing."""
    signals.worker_init.connect(before_fork, dispatch_uid="sluice-before-fork")
    signals.worker_process_init.connect(after_fork, dispatch_uid="sluice-after-fork")
    signals.worker_ready.connect(begin, dispatch_uid="sluice-resident")
    signals.worker_shutting_down.connect(end, dispatch_uid="sluice-shutdown")


def before_fork(**_: Any) -> None:  # noqa: ANN401 - Celery's signature
    _main.add(os.getpid())
    shutdown.share()


def after_fork(**_: Any) -> None:  # noqa: ANN401 - Celery's signature
    """The pool replaces a process that ended: one that hangs may end itself.

    A pool that forks none says so in the main process, which nothing of ours replaces.
    """
    if os.getpid() not in _main:
        watchdog.own_this_process()


def begin(sender: Any, **_: Any) -> None:  # noqa: ANN401 - Celery's signature
    """The pool is forked: now threads and sessions may exist in the main process."""
    heart = Heart(
        kind="worker",
        node=worker_node(sender.hostname),
        slots=int(sender.pool.num_processes),
        queues=",".join(sorted(sender.app.amqp.queues.consume_from)),
    )
    if heart.queues == SPARK:
        _residents.append(Pulse(heart))
    else:
        dispatcher = Dispatcher(heart)
        _residents.extend([dispatcher, Watcher(dispatcher)])
    for resident in _residents:
        resident.start()


def end(**_: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Runs inside a signal handler: sets flags, waits for nothing."""
    shutdown.announce()
    for resident in _residents:
        resident.stop()
