"""Kill who tells of a notice while the receiver has the request and has not answered.

What is tested: a child process that decided and sends is ended by SIGKILL. The next one sends it
again, under the same id, and the notice counts as told only then.
"""

import json
import time

import pytest
from django.db.models import F

from crontasks.models import Notice, NoticeDelivery, NoticeRecipient, NoticeRule
from crontasks.notices import sending
from tests.support import warm
from tests.support.http_partner import HttpPartner

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]


def test_what_was_being_sent_by_a_killed_process_is_sent_again_under_its_id(child_environment):
    partner = HttpPartner()
    hook = NoticeRecipient.objects.create(
        name="hook", way="webhook", url=f"{partner.address}/hang", private_network=True
    )
    NoticeRule.objects.create(name="all", recipients=["hook"])
    try:
        child = warm.child(["-m", "tests.support.notice_child", "assets[0]"], child_environment)
        ends = time.monotonic() + 60
        while not partner.requests:
            assert time.monotonic() < ends
            time.sleep(0.02)
        child.kill()
        child.wait(timeout=30)

        assert Notice.objects.get().told_at is None
        NoticeRecipient.objects.filter(pk=hook.pk).update(url=f"{partner.address}/take")
        sending.send_due()
        assert len(partner.requests) == 1, "nobody knows yet that its sender is dead"
        NoticeDelivery.objects.update(next_at=F("next_at") - sending.LEASE)
        sending.send_due()
        sending.send_due()
        first, again = (json.loads(request.body) for request in partner.requests)
        assert first == again
        assert Notice.objects.get().told_at is not None
    finally:
        partner.close()
