"""Filters for the counts and endings of runs."""

from django import template

from console.cron import words
from console.cron.words import Counted, Said
from crontasks.instances.actions import CONSUMERS
from crontasks.models import CronRun

register = template.Library()


@register.filter
def ended_as(run: CronRun) -> Said | None:
    """The ending of a queue's run, in words; None for other runs."""
    return words.ending(run.ending)


@register.filter
def counted(run: CronRun, task: str) -> tuple[Counted, ...]:
    """The counts of a run of this cron task, in words."""
    return words.counted(run.counts, task=task, is_consumer=task in CONSUMERS)
