"""What lives in a worker's main process: the dispatcher and the watch, from ready to shutdown."""

import os
from typing import Any

from celery import signals

from crontasks.dispatch.dispatcher import Dispatcher
from crontasks.dispatch.watcher import Watcher
from crontasks.health.hearts import Heart
from crontasks.running import shutdown

_residents: list[Dispatcher | Watcher] = []


def connect() -> None:
    """Listen to Celery's signals; called once when Django is set up. Starts nothing."""
    signals.worker_init.connect(before_fork, dispatch_uid="sluice-before-fork")
    signals.worker_ready.connect(begin, dispatch_uid="sluice-resident")
    signals.worker_shutting_down.connect(end, dispatch_uid="sluice-shutdown")


def before_fork(**_: Any) -> None:  # noqa: ANN401 - Celery's signature
    shutdown.share()


def begin(sender: Any, **_: Any) -> None:  # noqa: ANN401 - Celery's signature
    """The pool is forked: now threads and sessions may exist in the main process."""
    heart = Heart(
        kind="worker",
        # Two workers started without -n have one name; the pid keeps their heartbeats apart.
        node=f"{sender.hostname}:{os.getpid()}",
        slots=int(sender.pool.num_processes),
        queues=",".join(sorted(sender.app.amqp.queues.consume_from)),
    )
    dispatcher = Dispatcher(heart)
    _residents.extend([dispatcher, Watcher(dispatcher)])
    for resident in _residents:
        resident.start()


def end(**_: Any) -> None:  # noqa: ANN401 - Celery's signature
    """Runs inside a signal handler: sets flags, waits for nothing."""
    shutdown.announce()
    for resident in _residents:
        resident.stop()
