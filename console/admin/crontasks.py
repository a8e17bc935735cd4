"""Schedules. Beat's own tables are written by them, so they are not offered for editing."""

from django.contrib import admin
from django_celery_beat import models as beat

from console.admin.records import LookedAt
from crontasks.models import CronInstance, Heartbeat, Notice

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


@admin.register(CronInstance)
class CronInstanceAdmin(admin.ModelAdmin):  # type: ignore[type-arg] # not subscriptable at run time
    """Configured schedules."""

    list_display = ("name", "task", "schedule_words", "time_zone", "active", "queue")
    list_filter = ("task", "active")
    list_select_related = ("queue",)
    search_fields = ("name",)


@admin.register(Heartbeat)
class HeartbeatAdmin(LookedAt):
    """Workers and beats, as they reported last."""

    list_display = ("kind", "node", "seen_at", "leads", "slots")


@admin.register(Notice)
class NoticeAdmin(LookedAt):
    """What people were told by mail and log."""

    list_display = ("kind", "subject", "text", "opened_at", "closed_at")
    list_filter = ("kind",)
