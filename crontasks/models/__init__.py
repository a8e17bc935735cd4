"""The tables of cron tasks. One noun a module."""

from crontasks.models.heartbeat import Heartbeat
from crontasks.models.instance import CronInstance
from crontasks.models.notice import Notice
from crontasks.models.run import CronRun

__all__ = ["CronInstance", "CronRun", "Heartbeat", "Notice"]
