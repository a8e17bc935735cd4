"""How pages write what runs counted and how they ended."""

from django import template

from console.cron import words
from console.cron.words import Counted, Said
from crontasks.instances.actions import CONSUMERS
from crontasks.models import CronRun

register = template.Library()


@register.filter
def ended_as(run: CronRun) -> Said | None:
    """How a queue's run ended, in words; None for other runs."""
    return words.ending(run.ending)


@register.filter
def counted(run: CronRun, task: str) -> tuple[Counted, ...]:
    """What a run of this cron task counted, in words."""
    return words.counted(run.counts, task=task, is_consumer=task in CONSUMERS)
