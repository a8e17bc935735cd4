"""The tables of cron tasks. One noun a module."""

from crontasks.models.heartbeat import Heartbeat
from crontasks.models.instance import CronInstance
from crontasks.models.lag_sample import LagSample
from crontasks.models.notice import Notice
from crontasks.models.notice_delivery import NoticeDelivery
from crontasks.models.notice_recipient import NoticeRecipient
from crontasks.models.notice_rule import NoticeRule
from crontasks.models.run import CronRun

__all__ = [
    "CronInstance",
    "CronRun",
    "Heartbeat",
    "LagSample",
    "Notice",
    "NoticeDelivery",
    "NoticeRecipient",
    "NoticeRule",
]
