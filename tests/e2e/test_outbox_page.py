"""The outbox in a real browser: a narrow screen, decisions without JavaScript."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from integration.models import OutboxRow
from tests.e2e.conftest import OpenPage, settled
from tests.e2e.faults import NARROW, too_wide
from tests.functional.relay_world import a_dead_row, a_provider, a_relay_in_doubt
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_outbox_complains_of_nothing_and_is_no_wider_than_the_screen(
    open_page: OpenPage, complaints: list[str]
) -> None:
    provider = a_provider()
    queue = a_queue_row(direction="outbound", provider=provider)
    row = a_dead_row(provider, strict_queue=queue.pk, topic="a-topic-with-a-long-name." * 8)
    a_relay_in_doubt(a_provider(name="other"))
    page = open_page("Editors")
    for address in (reverse("outbox"), reverse("outbox-row", args=[row.pk]), reverse("overview")):
        page.goto(address)
        settled(page)
        for width in (1280, NARROW):
            assert too_wide(page, width) == [], address
    assert complaints == []


def test_a_row_is_given_up_with_a_reason_and_another_sent_again(
    open_page: OpenPage, complaints: list[str]
) -> None:
    provider = a_provider()
    lost, mended = a_dead_row(provider), a_dead_row(provider)
    page = open_page("Operators", javascript=False)
    page.goto(reverse("outbox"))
    page.get_by_label(f"Give up row {lost.pk}", exact=True).click()
    page.get_by_label("Reason", exact=True).locator("visible=true").fill("sent by mail")
    page.get_by_role("button", name=f"Give up row {lost.pk} for good").click()
    expect(page.get_by_text("“sent by mail”")).to_be_visible()
    page.get_by_role("checkbox", name=f"Choose row {mended.pk}").check()
    page.get_by_role("button", name="Send again…").click()
    page.get_by_role("button", name="Send 1 row again").click()
    expect(page.get_by_text("1 given back to the relay")).to_be_visible()
    assert set(OutboxRow.objects.values_list("state", flat=True)) == {"CANCELLED", "PENDING"}
    assert complaints == []
