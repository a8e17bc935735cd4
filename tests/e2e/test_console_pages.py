"""Every page in a real browser: both themes, a narrow screen, without JavaScript."""

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from devstack.servers import Servers
from integration.models import MessageError
from tests.e2e.conftest import OpenPage
from tests.support.builders import a_provider
from tests.support.rows import a_blocked_queue, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def pages(servers: Servers) -> list[str]:
    provider = a_provider(servers.kafka_bootstrap)
    queue, _, error = a_blocked_queue(provider=provider)
    return [
        reverse("overview"),
        reverse("queue", args=[queue.name]),
        reverse("failures"),
        reverse("failure", args=[error.pk]),
        reverse("edit", args=[error.pk]),
        reverse("cron"),
    ]


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_complains_or_is_wider_than_the_screen(
    open_page: OpenPage, servers: Servers, complaints: list[str], colours: str, width: int
) -> None:
    addresses = pages(servers)
    page = open_page("Editors", colours=colours, width=width)
    for address in addresses:
        page.goto(address)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.dataset.bsTheme") == colours
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
        assert page.locator("h1, .row-cards").first.is_visible()
    assert complaints == []


def test_the_theme_chosen_by_a_person_stays(open_page: OpenPage) -> None:
    page = open_page("Viewers", colours="light")
    page.get_by_role("button", name="Dark").click()
    page.goto(reverse("failures"))
    assert page.evaluate("document.documentElement.dataset.bsTheme") == "dark"


def test_figures_are_fresh_without_a_reload(open_page: OpenPage, complaints: list[str]) -> None:
    queue = a_queue_row("continuous", name="meter-readings")
    a_place(queue, next_offset=15)
    page = open_page("Viewers")
    page.goto("/")
    row = page.get_by_role("row", name="meter-readings")
    expect(row).to_contain_text("Running")
    queue.partitions.update(state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")
    expect(row).to_contain_text("Braked", timeout=15_000)
    assert complaints == []


@pytest.mark.parametrize("javascript", [True, False])
def test_ticked_failures_are_released_after_a_review(
    open_page: OpenPage, complaints: list[str], *, javascript: bool
) -> None:
    queue = a_queue_row("continuous")
    a_place(queue)
    errors = [a_held(queue, offset) for offset in range(3)]
    page = open_page("Operators", javascript=javascript)
    page.goto(reverse("failures"))
    for error in errors[:2]:
        page.get_by_role("checkbox", name=f"Choose {error.message_id}").check()
    page.get_by_role("button", name="Release…").click()
    expect(page.get_by_role("heading", name="Release 2 messages?")).to_be_visible()
    page.get_by_role("button", name="Release 2").click()
    expect(page.get_by_text("2 released.")).to_be_visible()
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
