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
        "When each worker and beat last reported that it is alive; each does so every few seconds. "
        "“Leads” marks the one that starts what is due. Rows of ended processes mean nothing."
    )

    list_display = ("kind", "node", "seen_at", "leads", "slots")


@admin.register(Notice)
class NoticeAdmin(LookedAt):
    """Notifications sent to people by email and log."""

    about = (
        "What the watch notified people of by email and log, and for how long it lasted. It opens "
        "and closes notices by itself; the overview shows the open ones, with what to do."
    )

    list_display = ("kind", "subject", "text", "opened_at", "closed_at")
    list_filter = ("kind",)
