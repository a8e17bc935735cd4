"""The Celery tasks: parse, call, return. Sent by beat, by the dispatcher and by the console."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from celery import Task, shared_task

from crontasks import expiry, ticks
from crontasks.running import operating, outage, serving
from crontasks.task_names import DRIVE_RUN, RUN_OPERATION, RUN_QUEUE, RUN_RELAY, TICK

TICK_AGAIN_SECONDS: Final = 10


@shared_task(bind=True, name=TICK, max_retries=None)
def tick(
    self: "Task[Any, Any]",
    instance_id: int,
    scheduled_at: str,
    asked_by: str = "",
    parameters: Mapping[str, object] | None = None,
) -> None:
    """One moment of a cron instance, or a run that a person asked for.

    Beat sends a moment once. One whose run could not begin as the database was away comes again
    until it expires; of one whose run had begun that is nothing.
    """
    request = ticks.RunRequest(asked_by, parameters) if asked_by else None
    again = partial(self.retry, countdown=TICK_AGAIN_SECONDS)
    what, then = f"A tick of cron instance {instance_id}", "a run that had not begun is tried again"
    with outage.in_one_line(what, then=then, send_again=again):
        if not expiry.has_expired():
            ticks.tick(instance_id, datetime.fromisoformat(scheduled_at), request)


@shared_task(name=RUN_QUEUE)
def run_queue(queue_id: int, requested_at: str | None = None) -> None:
    """One run of one queue, unless the request it was sent for no longer stands."""
    at = None if requested_at is None else datetime.fromisoformat(requested_at)
    with outage.in_one_line(f"A run of queue {queue_id}"):
        serving.serve_queue(queue_id, at)


@shared_task(name=RUN_OPERATION)
def run_operation(operation_id: str, asked_at: str | None = None) -> None:
    """One turn of a bulk operation, unless the request it was sent for no longer stands."""
    at = None if asked_at is None else datetime.fromisoformat(asked_at)
    with outage.in_one_line(f"Operation {operation_id}"):
        operating.serve_operation(UUID(operation_id), at)


@shared_task(name=RUN_RELAY)
def run_relay() -> None:
    """The relay, until the worker shuts down."""
    with outage.in_one_line("The relay"):
        if not expiry.has_expired():
            serving.serve_relay()


@shared_task(bind=True, name=DRIVE_RUN)
def drive_run(self: "Task[Any, Any]", run_id: str) -> None:
    """A run of a bulk job; the Spark driver alone takes these."""
    from crontasks.bulk import driver  # noqa: PLC0415 - other workers need not know the jobs

    with outage.in_one_line(f"Bulk run {run_id}"):
        if not expiry.has_expired():
            driver.serve(UUID(run_id), str(self.request.hostname))
