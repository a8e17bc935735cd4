"""A saved queue gets its consumer instance; the shipped instances exist after a migration."""

from typing import Any, Final

from django.db import connections
from django.db.models.signals import post_delete, post_migrate, post_save

from crontasks import copies
from crontasks.models import CronInstance
from integration.models import ChannelTarget, Queue
from integration.selectors.delivering.senders import sends

CONSUMER_SECONDS: Final = 10
TABLE: Final = "crontasks_croninstance"
# name, task, crontab, interval in seconds
SHIPPED: Final[tuple[tuple[str, str, str, int | None], ...]] = (
    ("Relay", "relay", "", 5),
    ("Errors cleanup", "errors_cleanup", "17 * * * *", None),
    ("History cleanup", "history_cleanup", "37 * * * *", None),
    ("Retention sync", "retention_sync", "7 * * * *", None),
    ("Lag monitor", "lag_monitor", "", 15),
    ("Rescue", "rescue", "", 60),
    ("Recovery of branches", "xa_recovery", "", 60),
    ("Events", "events", "", 5),
)


def connect() -> None:
    post_save.connect(queue_saved, sender=Queue, dispatch_uid="sluice-queue-instance")
    post_save.connect(target_saved, sender=ChannelTarget, dispatch_uid="sluice-target-instance")
    post_delete.connect(
        instance_deleted, sender="crontasks.CronInstance", dispatch_uid="sluice-instance-gone"
    )
    post_migrate.connect(ship, dispatch_uid="sluice-shipped-instances")


def queue_saved(instance: Queue, *, created: bool = False, raw: bool = False, **_: Any) -> None:
    """Receiver: every queue that runs has one consumer instance, of the kind that fits it."""
    if not raw:
        consumer_of(instance, is_new=created)


def target_saved(instance: ChannelTarget, *, raw: bool = False, **_: Any) -> None:
    """Receiver: a target with an endpoint of its own makes its queue one that sends."""
    if not raw:
        consumer_of(instance.queue)


def consumer_of(queue: Queue, *, is_new: bool = False) -> None:
    """Create the queue's consumer instance, or turn it into the kind that fits the queue."""
    if queue.direction != Queue.Direction.INBOUND and not sends(queue):
        return
    task = "error_queue_consumer" if queue.is_error_queue else "queue_consumer"
    stored = CronInstance.objects.filter(
        queue=queue, task__in=("queue_consumer", "error_queue_consumer")
    )
    instance = None if is_new else stored.first()
    if instance is None:
        CronInstance.objects.create(
            name=f"Consume {queue.name}",
            task=task,
            queue=queue,
            interval_seconds=CONSUMER_SECONDS,
        )
    elif instance.task != task:
        instance.task = task
        instance.save()


def instance_deleted(instance: Any, **_: Any) -> None:
    """Receiver: beat forgets a deleted instance."""
    instance.forget_periodic_task()


def ship(sender: Any, *, using: str = "default", **_: Any) -> None:
    """Receiver: what every installation needs; the instances are yours to change after."""
    tables = connections[using].introspection.table_names()
    if getattr(sender, "name", "") != "crontasks" or TABLE not in tables:
        return
    copies.claim_database()
    for name, task, crontab, interval in SHIPPED:
        if not CronInstance.objects.filter(task=task).exists():
            CronInstance.objects.create(
                name=name, task=task, crontab=crontab, interval_seconds=interval
            )
