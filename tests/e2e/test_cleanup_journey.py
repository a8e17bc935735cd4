"""In a browser: what cleanup simulates is what its run removes; schedules show their effect."""

import pytest
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import expect

from crontasks import ticks
from crontasks.models import CronInstance
from integration.models import ExternalSystem, MessageError
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import NARROW, WIDE, faults
from tests.functional.test_console_cleanup import old_and_young_rows

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_cleanup_removes_exactly_what_its_simulation_told(
    open_page: OpenPage, complaints: list[str]
) -> None:
    old_and_young_rows()
    instance = CronInstance.objects.get(task="errors_cleanup")
    page = open_page("Operators", javascript=False)
    page.goto(reverse("cleanup"))
    page.get_by_role("button", name="Simulate Errors cleanup").click()
    told = page.locator("#simulation .what strong").inner_text()
    simulated = int(told.split(" ")[0])
    before = MessageError.objects.count()
    assert 0 < simulated < before

    # The workers' part; no worker belongs to this test.
    ticks.tick(instance.pk, timezone.now())

    assert before - MessageError.objects.count() == simulated
    page.get_by_role("button", name="Simulate Errors cleanup").click()
    expect(page.get_by_text("A run now would remove nothing")).to_be_visible()
    expect(page.get_by_text("5 DELETED, 4 RESOLVED")).to_be_visible()
    assert complaints == []


@pytest.mark.parametrize("javascript", [True, False])
def test_a_schedule_tells_its_next_runs_before_it_is_saved(
    open_page: OpenPage, complaints: list[str], *, javascript: bool
) -> None:
    page = open_page("Administrators", javascript=javascript)
    page.goto(reverse("cron"))
    page.get_by_role("link", name="New schedule").click()
    page.get_by_role("link", name="Schedule Scheduled reprocessing").click()
    page.get_by_label("At fixed times").fill("15 6 * * mon-fri")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    if not javascript:
        page.get_by_role("button", name="Show the effect").click()
    expect(page.get_by_text("At 06:15 on Monday to Friday (Europe/Berlin)")).to_be_visible()
    expect(page.locator("#effect li")).to_have_count(5)
    page.get_by_label("At most").fill("25")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Scheduled reprocessing was added.")).to_be_visible()
    made = CronInstance.objects.get(task="reprocessing")
    assert made.parameters == {"at_most": 25}
    page.get_by_text("Pause…").click()
    page.locator("#pause-reason").fill("not before the audit")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("“not before the audit”").first).to_be_visible()
    assert complaints == []


def test_the_pages_complain_of_nothing_and_are_no_wider_than_the_screen(
    open_page: OpenPage, complaints: list[str]
) -> None:
    old_and_young_rows()
    ExternalSystem.objects.create(name="erp")
    cleanup = CronInstance.objects.get(task="errors_cleanup")
    history = CronInstance.objects.get(task="history_cleanup")
    ticks.tick(cleanup.pk, timezone.now())
    run = cleanup.runs.get()
    page = open_page("Administrators", width=WIDE)
    # What every page is looked at without: a cleanup's runs, each kind of field, a simulation.
    addresses = {
        "instance": reverse("cron-instance", args=[cleanup.pk]),
        "run": reverse("cron-run", args=[run.pk]),
        "removal": reverse("removal", args=["sample"]),
        "new": f"{reverse('cron-new')}?task=typed",
        "cleanup": f"{reverse('cleanup')}?simulate={history.pk}",
    }
    found = []
    for name, address in addresses.items():
        page.goto(address)
        widths = (WIDE, NARROW) if name in {"new", "cleanup"} else (WIDE,)
        found += faults(page, name, widths=widths)
    assert found == []
    assert complaints == []
