"""Tracked messages in a real browser: a narrow screen, from the list to the story."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from integration.models import ErrorAttempt, ErrorChange, ExternalSystem
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import NARROW, WIDE, too_wide
from tests.support.rows import a_held, a_queue_row
from tests.support.tracks import a_track_row

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def a_busy_day() -> str:
    """Some messages of two queues; returns the id of one that failed, was released and applied."""
    system = ExternalSystem.objects.create(name="eam")
    assets = a_queue_row(name="eam-assets", system=system)
    orders = a_queue_row(name="orders-out", system=system, direction="outbound")
    ends = ["APPLIED", "RETRY", "HOLD", "SUPERSEDED", "DUPLICATE", "APPLIED"]
    for number in range(12):
        a_track_row(
            assets, ended=ends[number % 6], key=f"A-{number % 3}", ago=timedelta(minutes=number),
            message_id=f"plant~eam.assets~0~{number}", external_id=f"WO-{number}",
        )  # fmt: skip
    now, id_ = timezone.now(), "a-long-id-without-a-blank-in-it." * 3
    error = a_held(
        assets, message_id=id_, state="RESOLVED", ended="APPLIED", offset=99,
        closed_at=now - timedelta(minutes=1), code="ASSET_UNKNOWN",
    )  # fmt: skip
    for number, (ended, ago) in enumerate([("RETRY", 9), ("HOLD", 8), ("APPLIED", 1)], 1):
        at, code = now - timedelta(minutes=ago), "" if ended == "APPLIED" else "ASSET_UNKNOWN"
        text = "The asset P-4711 is not known." if code else ""
        ErrorAttempt.objects.create(
            error=error, number=number, at=at, ended=ended, code=code, text=text, worker="node-1"
        )
        a_track_row(
            assets, at=at, offset=99, message_id=id_, ended=ended, key="A-1",
            payload=b'{"assetnum": "P-4711", "site": "BEDFORD"}', external_id="WO-77",
            caused_by="the-order-it-answers",
        )  # fmt: skip
    ErrorChange.objects.create(
        error=error, at=now - timedelta(minutes=2), actor="otto", action="release",
        from_state="HOLD", to_state="READY", reason="the asset exists now",
    )  # fmt: skip
    a_track_row(orders, message_id="the-reply", caused_by=id_, ended="DELIVERED", ago=timedelta())
    return id_


def fits(page: Page) -> bool:
    """No wider than a wide screen and a narrow one, on which it stays."""
    return [fault for width in (WIDE, NARROW) for fault in too_wide(page, width)] == []


def test_from_the_list_to_the_story_without_a_complaint(
    open_page: OpenPage, complaints: list[str]
) -> None:
    id_ = a_busy_day()
    page = open_page("Editors", width=WIDE)
    page.goto(reverse("tracking"))
    page.get_by_label("Message, external, search or trace id").fill("WO-77")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("link", name=id_[:40])).to_have_count(3)
    page.goto(reverse("tracking"))
    assert fits(page)
    page.get_by_role("link", name=id_[:40]).first.click()
    expect(page.get_by_role("heading", name="What happened to it")).to_be_visible()
    expect(page.get_by_text("Released")).to_be_visible()
    assert fits(page)
    page.get_by_role("link", name="the-reply").click()
    expect(page.get_by_role("link", name=id_[:40])).to_be_visible()
    assert complaints == []
