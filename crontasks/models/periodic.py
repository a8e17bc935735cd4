"""Keeps the PeriodicTask of an instance as the instance says; beat reads nothing else."""

from typing import TYPE_CHECKING, Any

from django_celery_beat.models import (
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
)

from crontasks.enqueue import TICK
from crontasks.schedule import parse

if TYPE_CHECKING:
    from crontasks.models.instance import CronInstance


def write(instance: "CronInstance") -> None:
    """Create or update the row and tell beat that something changed."""
    wanted: dict[str, Any] = {
        "name": f"cron instance {instance.pk}: {instance.name}",
        "task": TICK,
        "args": f"[{instance.pk}]",
        "enabled": instance.active,
        "description": instance.schedule_words,
        "interval": None,
        "crontab": None,
        **_schedule_row(instance),
    }
    owned = instance.periodic_task
    if owned is None:
        owned = PeriodicTask.objects.create(**wanted)
        type(instance).objects.filter(pk=instance.pk).update(periodic_task=owned)
        instance.periodic_task = owned
    else:
        for name, value in wanted.items():
            setattr(owned, name, value)
        owned.save()
    PeriodicTasks.update_changed()


def remove(instance: "CronInstance") -> None:
    """Take the row of a deleted instance away."""
    PeriodicTask.objects.filter(pk=instance.periodic_task_id).delete()
    PeriodicTasks.update_changed()


def _schedule_row(instance: "CronInstance") -> dict[str, Any]:
    if instance.interval_seconds is not None:
        every, _ = IntervalSchedule.objects.get_or_create(
            every=instance.interval_seconds, period=IntervalSchedule.SECONDS
        )
        return {"interval": every}
    minute, hour, day, month, weekday = parse(instance.crontab).texts()
    timed, _ = CrontabSchedule.objects.get_or_create(
        minute=minute,
        hour=hour,
        day_of_month=day,
        month_of_year=month,
        day_of_week=weekday,
        timezone=instance.time_zone,
    )
    return {"crontab": timed}
