"""Requeues what a worker is given while it shuts down, so that another worker takes it at once.

Its last question to the broker is open when the shutdown begins, and the run that ends because of
it asks for the next one in that moment: the answer may well be that request. Celery would keep it
until its pool has ended, two seconds later.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from celery import bootsteps

from crontasks.running import shutdown

Take = Callable[[Any], object]


class RequeuesAtShutdown(bootsteps.StartStopStep):
    """A part of Celery's consumer, which is stopped before the one that takes Celery tasks."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def start(self, c: Any) -> None:
        """Called again with each new connection to the broker."""
        make = type(c).create_task_handler
        c.create_task_handler = lambda: requeuing(make(c))

    def stop(self, c: Any) -> None:
        # A pool of one that forks nothing has acknowledged what it works on only in this loop.
        if shutdown.is_announced() and c.task_consumer and c.pool.uses_semaphore:
            # Closing reads the answer to what was asked last; the broker gives one in a second.
            with suppress(*c.connection_errors, *c.channel_errors):
                c.task_consumer.channel.close()


def requeuing(take: Take) -> Take:
    """Take messages with `take`, and give them back to the broker once a shutdown is announced."""

    def takes(message: Any) -> object:
        if shutdown.is_announced():
            return message.requeue()
        return take(message)

    return takes
