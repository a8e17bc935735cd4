"""Ways to recipients: links to the console, and a way that fails by a mistake of Sluice's own."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.urls import reverse

from crontasks.models import NoticeDelivery, NoticeRecipient, NoticeRule
from crontasks.models.notice import NoticeKind
from crontasks.notices import book, sending, ways
from crontasks.notices.condition import Condition
from tests.support.http_partner import HttpPartner
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
BLOCKED = Condition(NoticeKind.BLOCKED, "assets[0]", "HEAD_HELD: Bad date.")


def test_a_way_that_fails_in_itself_is_a_failed_try_which_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hook = NoticeRecipient.objects.create(name="hook", way="webhook", url="http://hook.example/")
    NoticeRule.objects.create(name="r", recipients=["hook"])

    def fails(*_: object) -> str:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(ways, "send", fails)
    book.settle((BLOCKED,), frozenset({NoticeKind.BLOCKED}))
    NoticeDelivery.objects.update(next_at=F("next_at") - timedelta(minutes=2))
    assert not sending.send_to(hook.pk)
    [waiting] = NoticeDelivery.objects.all()
    assert waiting.taken_at is not None, "nobody knows how far it came"
    assert "ZeroDivisionError" in waiting.problem
    assert waiting.next_at is not None
    assert "a mistake of ours" in caplog.text
    assert "ZeroDivisionError" in sending.send_test(hook)
    monkeypatch.setattr(ways, "send", lambda *_: None)
    NoticeDelivery.objects.update(next_at=F("next_at") - timedelta(minutes=2))
    assert sending.send_to(hook.pk), "the next try finds it"


def test_a_webhook_is_told_the_pages_of_the_console(settings: Any) -> None:
    settings.SLUICE_CONSOLE_URL = "https://shop.test/ops"
    partner = HttpPartner()
    NoticeRecipient.objects.create(
        name="hook", way="webhook", url=f"{partner.address}/take", private_network=True
    )
    NoticeRule.objects.create(name="r", recipients=["hook"])
    queue = a_queue_row("sequential").name
    here = Condition(NoticeKind.BLOCKED, f"{queue}[0]", "x")
    try:
        book.settle((BLOCKED, here), frozenset({NoticeKind.BLOCKED}))
    finally:
        partner.close()
    [request] = partner.requests
    body = json.loads(request.body)
    page = f"https://shop.test/ops{reverse('notices')}"
    assert body["link"] == page
    assert {told["subject"]: told["link"] for told in body["notices"]} == {
        "assets[0]": page,
        f"{queue}[0]": f"https://shop.test/ops{reverse('queue', args=[queue])}",
    }
