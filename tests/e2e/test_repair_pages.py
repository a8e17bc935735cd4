"""Repairing in a real browser: from a cause to its failures, an edit checked, facts copied."""

import re

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from integration.models import EnterpriseService, MessageError, Queue
from tests.e2e.conftest import OpenPage, in_colours, settled
from tests.e2e.faults import NARROW, WIDE, too_wide
from tests.support.contrast import open_panels, too_faint
from tests.support.rows import a_blocked_queue, a_held, a_queue_row, an_envelope
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def a_failure_to_mend() -> MessageError:
    EnterpriseService.objects.get_or_create(interface="OBEY")
    a_queue_row(name="out", direction=Queue.Direction.OUTBOUND, topic="out.topic")
    payload = an_envelope({"n": 3, "do": "permanent"}, INTERFACE="OBEY")
    return a_held(a_queue_row("continuous"), interface="OBEY", payload=payload)


@pytest.mark.parametrize("javascript", [True, False])
def test_an_edit_is_checked_before_it_is_saved(
    open_page: OpenPage, complaints: list[str], *, javascript: bool
) -> None:
    error = a_failure_to_mend()
    page = open_page("Editors", javascript=javascript)
    page.goto(reverse("failure", args=[error.pk]))
    page.get_by_role("link", name="Edit", exact=True).click()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="It would fail again.")).to_be_visible()
    text = page.get_by_label("The document inside the envelope")
    text.fill('{\n  "n": 3,\n  "do": "publish",\n  "text": "hello there"\n}')
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("heading", name="It would be applied.")).to_be_visible()
    expect(page.get_by_text("hello there").first).to_be_visible()
    expect(text).to_have_value('{\n  "n": 3,\n  "do": "publish",\n  "text": "hello there"\n}')
    error.refresh_from_db()
    assert (error.version, Effect.objects.count()) == (1, 0)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved. The original is kept")).to_be_visible()
    expect(page.get_by_text("Differences from the original")).to_be_visible()
    assert complaints == []


def test_from_a_cause_to_its_failures_and_from_one_to_the_next(
    open_page: OpenPage, complaints: list[str]
) -> None:
    queue = a_queue_row("continuous", name="assets")
    now = timezone.now()
    for offset in range(3):
        a_held(queue, offset, last_failed_at=now)
    a_held(queue, 9, code="OTHER", fingerprint="ffff")
    page = open_page("Viewers", javascript=False)
    page.goto(reverse("failures"))
    row = page.get_by_role("row", name="BAD_VALUE")
    expect(row).to_contain_text("3 on hold")
    expect(row.get_by_role("img")).to_be_visible()
    page.get_by_role("link", name="BAD_VALUE").click()
    failures = page.get_by_role("link", name="MXASSETInterface")
    expect(failures).to_have_count(3)
    failures.first.click()
    expect(page.get_by_role("link", name="← Newer")).to_have_count(0)
    for _ in range(2):
        page.get_by_role("link", name="Older →").click()
    expect(page.get_by_role("link", name="Older →")).to_have_count(0)
    page.get_by_role("link", name="Back to the list").click()
    expect(page.get_by_role("link", name="MXASSETInterface")).to_have_count(3)
    page.get_by_role("link", name="In groups").click()
    page.get_by_role("link", name="Queue", exact=True).click()
    expect(page.get_by_role("row", name="assets")).to_contain_text("2 causes")
    assert complaints == []


def test_the_facts_for_support_are_copied_or_selected(
    open_page: OpenPage, complaints: list[str]
) -> None:
    _, _, error = a_blocked_queue()
    page = open_page("Operators")
    page.goto(reverse("failure", args=[error.pk]))
    page.get_by_text("Copy for support").click()
    text = page.get_by_label("Facts for support")
    expect(text).to_contain_text(str(error.pk))
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("Copied.").or_(page.get_by_text("press Ctrl+C"))).to_be_visible()
    # Without the clipboard's interface, as on a console served over plain HTTP.
    page.evaluate("Object.defineProperty(window, 'isSecureContext', { value: false })")
    page.get_by_role("button", name="Copy", exact=True).click()
    chosen = "one => one.selectionEnd - one.selectionStart === one.value.length"
    assert text.evaluate(chosen)
    assert complaints == []


def unreadable(page: Page) -> list[str]:
    """What is too wide or, with all of the page opened, too faint: both widths and themes.

    It begins at the width and in the colours that the last look ended in.
    """
    widths, themes = [WIDE, NARROW], ["light", "dark"]
    if page.viewport_size and page.viewport_size["width"] == NARROW:
        widths.reverse()
    if page.evaluate("document.documentElement.dataset.bsTheme") == "dark":
        themes.reverse()
    found = [fault for width in widths for fault in too_wide(page, width)]
    open_panels(page)
    for width in reversed(widths):
        page.set_viewport_size({"width": width, "height": 900})
        for colours in themes:
            in_colours(page, colours)
            found += [f"{colours}, {width}: {text}" for text in too_faint(page)]
        themes.reverse()
    return found


def test_every_state_of_the_repair_pages_is_readable_and_fits(open_page: OpenPage) -> None:
    error = a_failure_to_mend()
    long = a_held(
        a_queue_row("continuous", name="q" * 60),
        text="word" * 60,
        code="C" * 60,
        interface="I" * 100,
        message_id="m" * 300,
        fingerprint="ffff",
        first_failed_at=timezone.now(),
    )
    page = open_page("Editors", width=WIDE)
    by_queue = f"{reverse('failures')}?by=queue"
    search = f"{reverse('failure-list')}?text=nowhere"
    for address in (
        reverse("failures"),
        by_queue,
        reverse("failure-list"),
        search,
        reverse("failure", args=[long.pk]),
        reverse("edit", args=[error.pk]),
    ):
        page.goto(address)
        assert unreadable(page) == [], address
    text = page.get_by_label("The document inside the envelope")
    for value in ('{"n": 3, "do": "publish"}', '{"n": 3, "do": "permanent"}', '{"n": '):
        text.fill(value)
        page.get_by_role("button", name="Check").click()
        expect(page.locator("#check")).to_be_visible()
        settled(page)
        assert unreadable(page) == [], value


def test_who_may_not_edit_sees_why(open_page: OpenPage) -> None:
    error = a_failure_to_mend()
    page = open_page("Operators")
    page.goto(reverse("failure", args=[error.pk]))
    button = page.get_by_role("button", name="Edit", exact=True)
    expect(button).to_be_disabled()
    expect(button).to_have_attribute(
        "title", re.compile("^You do not have the right to see payloads")
    )
