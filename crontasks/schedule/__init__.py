"""When a cron task runs: text to schedule, schedule to words and times. Pure, no Django."""

from crontasks.schedule.crontab import Crontab, parse
from crontasks.schedule.moments import Every, Schedule, Timed, build
from crontasks.schedule.words import in_words

__all__ = ["Crontab", "Every", "Schedule", "Timed", "build", "in_words", "parse"]
