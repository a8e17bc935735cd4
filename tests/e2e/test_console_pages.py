"""Every page in a real browser: both themes, a narrow screen, without JavaScript."""

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from crontasks.running.operating import run_operation
from devstack.servers import Servers
from integration.models import MessageError, Operation
from integration.policy.states import PartitionState
from tests.e2e.conftest import OpenPage, account_of, in_colours, log_in, settled
from tests.e2e.faults import NARROW, too_wide
from tests.support.builders import a_provider
from tests.support.contrast import open_panels, too_faint
from tests.support.rows import (
    a_blocked_queue,
    a_held,
    a_message_to_send,
    a_place,
    a_queue_row,
    some_live_processes,
)

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def many_states(servers: Servers) -> list[str]:
    """Pages with every badge, message and kind of button there is."""
    provider = a_provider(servers.kafka_bootstrap)
    queue, _, error = a_blocked_queue(provider=provider)
    addresses = [
        reverse("overview"),
        reverse("queue", args=[queue.name]),
        reverse("failure", args=[error.pk]),
        "/nowhere/",
    ]
    now = timezone.now()
    for number, state in enumerate(PartitionState):
        queue = a_queue_row("continuous", provider=provider, name=f"is-{state.lower()}")
        a_place(queue, state=state, state_code="CODE", state_text="A cause.", resume_at=now)
        a_held(queue, number, state="RETRY", not_before=now, fingerprint="")
    queue = a_queue_row("continuous", provider=provider, paused=True, pause_reason="stocktaking")
    a_queue_row("continuous", provider=provider, enabled=False)
    a_queue_row("continuous", provider=provider)
    for number, state in enumerate(["HOLD", "READY", "PROCESSING", "RESOLVED", "DELETED"]):
        error = a_held(queue, number, state=state, edited_at=now, expired_at=now)
        addresses.append(reverse("failure", args=[error.pk]))
    outbound = a_queue_row("continuous", provider=provider, direction="outbound")
    a_message_to_send(outbound, "DEAD", dead_code="MSG_SIZE_TOO_LARGE", dead_text="Too large.")
    everything = f"{reverse('failures')}?state=&since=yesterday"
    return [*addresses, everything, reverse("queue", args=[outbound.name])]


def test_every_text_is_readable_and_no_page_complains_or_is_wider_than_the_screen(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    addresses = many_states(servers)
    page = open_page("Editors")
    faint = {}
    # Each begins at the width and in the colours that the one before ended in.
    widths, themes = [1280, NARROW], ["light", "dark"]
    for address in addresses:
        page.goto(address)
        settled(page)
        for width in widths:
            assert too_wide(page, width) == [], address
            assert page.locator("h1, .row-cards").first.is_visible()
        open_panels(page)
        for colours in themes:
            in_colours(page, colours)
            faint[address, colours] = too_faint(page)
        widths.reverse()
        themes.reverse()
    assert not {where: texts for where, texts in faint.items() if texts}
    # The browser tells of the address that leads nowhere, and of the time that is none.
    told = [one for one in complaints if "404" not in one and '"yesterday"' not in one]
    assert told == []


def test_the_measure_of_contrast_sees_what_is_faint(open_page: OpenPage) -> None:
    page = open_page("Viewers")
    page.goto("about:blank")
    page.set_content("<p style='color:#777'>just below</p><p style='color:#767676'>just enough</p>")
    assert [text.split()[0] for text in too_faint(page)] == ["4.48"]


def test_a_narrow_screen_keeps_the_menu_behind_a_button(
    open_page: OpenPage, complaints: list[str]
) -> None:
    """By style alone; and who logged out by it logs in again."""
    page = open_page("Editors", width=NARROW, javascript=False)
    page.goto("/")
    header = page.locator("header").bounding_box()
    assert header is not None
    assert header["height"] <= 100
    for name in ("Overview", "Failures", "Cron tasks"):
        # The box is hidden behind its label, as large as a button.
        page.locator("label[for=menu-toggle]").click()
        page.get_by_role("navigation", name="Pages").get_by_role("link", name=name).click()
        expect(page.locator("[aria-current=page]")).to_have_text(name)
    name = account_of(page).inner_text()
    account_of(page).click()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    log_in(page, name)
    expect(account_of(page)).to_have_text(name)
    assert complaints == []


def test_the_theme_chosen_by_a_person_stays(open_page: OpenPage) -> None:
    page = open_page("Viewers", javascript=False)
    page.goto("/")
    assert not page.get_by_role("button", name="Dark").is_visible()
    account_of(page).click()
    page.get_by_role("button", name="Dark").click()
    page.goto(reverse("failures"))
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_figures_are_fresh_without_a_reload(open_page: OpenPage, complaints: list[str]) -> None:
    some_live_processes()
    queue = a_queue_row("continuous", name="meter-readings")
    a_place(queue, next_offset=15)
    page = open_page("Viewers", own_clock=True)
    page.goto("/")
    row = page.get_by_role("row", name="meter-readings")
    expect(row).to_contain_text("Running")
    queue.partitions.update(state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")
    # The menu counts with the page, which cannot say one thing beside another.
    needy = page.get_by_role("navigation", name="Pages").get_by_role("link", name="Overview")
    page.clock.run_for(5_000)
    expect(row).to_contain_text("Too many failures")
    expect(needy).to_contain_text("1 need a person")
    assert complaints == []


@pytest.mark.parametrize("javascript", [True, False])
def test_ticked_failures_are_released_after_a_review(
    open_page: OpenPage, complaints: list[str], *, javascript: bool
) -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    errors = [a_held(queue, offset) for offset in range(3)]
    page = open_page("Operators", javascript=javascript)
    page.goto(reverse("failure-list"))
    for error in errors[:2]:
        page.get_by_role("checkbox", name=f"Choose {error.message_id}").check()
    page.get_by_role("button", name="Release…").click()
    expect(page.get_by_role("heading", name="Release 2 messages?")).to_be_visible()
    page.get_by_role("button", name="Release all 2").click()
    expect(page.get_by_text("0 released, 2 to go")).to_be_visible()
    # The worker's part; no worker belongs to this test.
    run_operation(Operation.objects.get().pk, stop=lambda: None)
    page.reload()
    expect(page.get_by_text("2 released, 0 to go")).to_be_visible()
    assert MessageError.objects.filter(state="READY").count() == 2
    assert complaints == []


def test_deleting_and_restoring_without_javascript(open_page: OpenPage) -> None:
    _, _, error = a_blocked_queue()
    page = open_page("Operators", javascript=False)
    page.goto(reverse("failure", args=[error.pk]))
    page.get_by_text("Delete…").click()
    page.get_by_label("Reason").last.fill("sent twice")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("It can be restored until cleanup removes it.").first).to_be_visible()
    expect(page.get_by_text("sent twice")).to_be_visible()
    page.get_by_role("button", name="Restore").click()
    expect(page.get_by_text("Restored. It is on hold again.")).to_be_visible()
