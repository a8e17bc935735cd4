"""Heartbeats and notices, to look at. Schedules are set up on the console's own pages.

Beat's tables are written by the schedules, so they are not offered for editing.
"""

from django.contrib import admin
from django_celery_beat import admin as beats_admin  # noqa: F401 - registers what is taken back
from django_celery_beat import models as beat

from console.admin.records import LookedAt
from crontasks.models import Heartbeat, Notice

BEATS_OWN = (
    beat.ClockedSchedule,
    beat.CrontabSchedule,
    beat.IntervalSchedule,
    beat.PeriodicTask,
    beat.SolarSchedule,
)
admin.site.unregister(BEATS_OWN)


@admin.register(Heartbeat)
class HeartbeatAdmin(LookedAt):
    """Workers and beats, as they reported last."""

    about = (
        "When each worker and beat last showed that it lives, every few seconds by itself. “Leads” "
        "marks the one that starts what is due. A row of a process that is gone means nothing."
    )

    list_display = ("kind", "node", "seen_at", "leads", "slots")


@admin.register(Notice)
class NoticeAdmin(LookedAt):
    """What people were told by mail and log."""

    about = (
        "What the watch told people by mail and log, from when to when it was so. It writes and "
        "closes them by itself; the overview shows those that are open, with what to do."
    )

    list_display = ("kind", "subject", "text", "opened_at", "closed_at")
    list_filter = ("kind",)
