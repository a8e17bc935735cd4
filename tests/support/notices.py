"""Notices for tests: looks at conditions, rules and recipients, and the passing of time."""

import json
from datetime import timedelta
from typing import Any, Final

from django.db.models import F

from crontasks.models import Notice, NoticeDelivery, NoticeRecipient, NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.notices import book
from crontasks.notices.condition import Condition
from tests.support.http_partner import HttpPartner

KINDS: Final = frozenset({NoticeKind.BLOCKED, NoticeKind.LAG, NoticeKind.EXPIRING})
BLOCKED: Final = Condition(NoticeKind.BLOCKED, "assets[0]", "HEAD_HELD: Bad date.")


def look(*conditions: Condition) -> None:
    book.settle(conditions, KINDS)


def later(by: timedelta) -> None:
    """Let everything that is stored have happened so much earlier."""
    moments = ("opened_at", "decided_at", "told_at", "again_at", "snoozed_until")
    Notice.objects.update(**{name: F(name) - by for name in moments})
    of_deliveries = ("created_at", "next_at", "taken_at", "sent_at")
    NoticeDelivery.objects.update(**{name: F(name) - by for name in of_deliveries})


def a_rule(name: str = "r", **fields: Any) -> NoticeRule:
    rule = NoticeRule(name=name, **fields)
    rule.full_clean()
    rule.save()
    return rule


def a_recipient(name: str, **fields: Any) -> NoticeRecipient:
    made = NoticeRecipient(name=name, **{"private_network": True, **fields})
    made.full_clean()
    made.save()
    return made


def a_webhook(partner: HttpPartner, path: str = "/take", **fields: Any) -> NoticeRecipient:
    url = f"{partner.address}{path}"
    return a_recipient("hook", **{"way": "webhook", "url": url, "secret": "s3cret", **fields})


def bodies(partner: HttpPartner) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in partner.requests]
