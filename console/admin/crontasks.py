"""Heartbeats and notices, to look at. Schedules are set up on the console's own pages.

Beat's tables are written by the schedules, so they are not offered for editing.
"""

from django.contrib import admin
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
for model in BEATS_OWN:
    if admin.site.is_registered(model):
        admin.site.unregister(model)


@admin.register(Heartbeat)
class HeartbeatAdmin(LookedAt):
    """Workers and beats, as they reported last."""

    list_display = ("kind", "node", "seen_at", "leads", "slots")


@admin.register(Notice)
class NoticeAdmin(LookedAt):
    """What people were told by mail and log."""

    list_display = ("kind", "subject", "text", "opened_at", "closed_at")
    list_filter = ("kind",)
