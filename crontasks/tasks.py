"""The Celery tasks: parse, call, return. Sent by beat, by the dispatcher and by the console."""

from datetime import datetime

from celery import shared_task

from crontasks import serving, ticks


@shared_task(name="crontasks.tasks.tick")
def tick(instance_id: int, scheduled_at: str) -> None:
    """One moment of a cron instance."""
    ticks.tick(instance_id, datetime.fromisoformat(scheduled_at))


@shared_task(name="crontasks.tasks.run_queue")
def run_queue(queue_id: int) -> None:
    """One run of one queue."""
    serving.serve_queue(queue_id)


@shared_task(name="crontasks.tasks.run_relay")
def run_relay() -> None:
    """The relay, until the worker shuts down."""
    serving.serve_relay()
