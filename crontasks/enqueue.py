"""Puts the Celery tasks of `crontasks.tasks` into the broker by name, without importing them."""

from collections.abc import Sequence
from typing import Any, Final

from celery import current_app

TICK: Final = "crontasks.tasks.tick"
RUN_QUEUE: Final = "crontasks.tasks.run_queue"
RUN_OPERATION: Final = "crontasks.tasks.run_operation"
RUN_RELAY: Final = "crontasks.tasks.run_relay"
DRIVE_RUN: Final = "crontasks.tasks.drive_run"


def enqueue(name: str, arguments: Sequence[object] = (), **options: Any) -> None:
    """Send one Celery task; `options` are those of Celery's send_task.

    Raises kombu's OperationalError when the broker does not answer: it is asked once.
    """
    current_app.send_task(name, tuple(arguments), retry=False, **options)
