"""Setting up in a real browser: tests and tryouts without a reload, and without scripts."""

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack.servers import Servers
from integration.models import (
    ConfigurationChange,
    Endpoint,
    EnterpriseService,
    ExternalSystem,
    ObjectStructure,
    Provider,
)
from tests.e2e.conftest import OpenPage, settled
from tests.e2e.faults import NARROW, WIDE, faults, too_wide
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SAMPLE = '{"assetnum": "P-1", "siteid": 7}'


def a_partner(servers: Servers) -> dict[str, int]:
    """One of each noun, by the name of its page."""
    provider = Provider.objects.create(name="plant", bootstrap_servers=servers.kafka_bootstrap)
    system = ExternalSystem.objects.create(name="eam", description="The plant")
    structure = ObjectStructure.objects.create(name="assets", key_paths=["$.assetnum"])
    service = EnterpriseService.objects.create(interface="MXASSET", structure=structure)
    endpoint = Endpoint.objects.create(
        name="post",
        system=system,
        endpoint_type="http",
        properties={"url": "https://partner.example/" + "long/" * 30},
    )
    a_queue_row(provider=provider, system=system, default_service=service)
    return {
        "system": system.pk,
        "service": service.pk,
        "structure": structure.pk,
        "endpoint": endpoint.pk,
        "provider": provider.pk,
    }


def save(page: Page) -> None:
    page.locator(".card-footer").get_by_role("button", name="Save").click()
    settled(page)


@pytest.mark.timeout(300)
def test_what_answers_show_is_as_accessible_as_the_pages(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    """Results, mistakes and conflicts, which the plain pages (test_every_page) do not show."""
    numbers = a_partner(servers)
    page = open_page("Administrators", width=WIDE)
    found = []
    # What these have here is longer, or used by more, than what every page is looked at with.
    for name in ("endpoint", "endpoint-change", "service"):
        page.goto(reverse(name, args=[numbers[name.partition("-")[0]]]))
        for width in (NARROW, WIDE):
            found += too_wide(page, width)
    found += asked(page, numbers["provider"])
    found += tried(page, numbers["structure"])
    found += in_conflict(page, numbers["system"])
    found += mistaken(page)
    assert found == []
    # A refused answer is told by the browser as an error of its own.
    assert [one for one in complaints if "409" not in one and "422" not in one] == []


def asked(page: Page, provider: int) -> list[str]:
    page.goto(reverse("provider", args=[provider]))
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator("#tested")).to_contain_text("Create topics")
    return faults(page, "tested")


def tried(page: Page, structure: int) -> list[str]:
    page.goto(reverse("structure-change", args=[structure]))
    page.get_by_label("Sample document").fill(SAMPLE)
    page.get_by_role("button", name="Try the paths").click()
    expect(page.locator("#beside")).to_contain_text("The key is P-1")
    expect(page.get_by_label("Sample document")).to_have_value(SAMPLE)
    return faults(page, "tried")


def in_conflict(page: Page, system: int) -> list[str]:
    """The conflict, then the audit of the choice."""
    page.goto(reverse("system-change", args=[system]))
    ExternalSystem.objects.update(description="theirs")
    page.get_by_label("Description").fill("mine")
    page.get_by_label("Why").fill("new phone list")
    save(page)
    expect(page.get_by_role("alert")).to_contain_text("was changed by somebody else")
    found = faults(page, "conflict")
    save(page)
    expect(page.locator("main")).to_contain_text("new phone list")
    page.goto(reverse("change", args=[ConfigurationChange.objects.get().pk]))
    return found + faults(page, "change")


def mistaken(page: Page) -> list[str]:
    page.goto(reverse("endpoint-new") + "?endpoint_type=http")
    page.get_by_label("Name").fill("with blanks")
    save(page)
    expect(page.get_by_role("alert")).to_contain_text("Use only letters, digits")
    return faults(page, "mistake")


def test_everything_works_without_scripts(open_page: OpenPage, servers: Servers) -> None:
    numbers = a_partner(servers)
    page = open_page("Administrators", javascript=False)
    page.goto(reverse("provider-change", args=[numbers["provider"]]))
    page.get_by_label("Servers").fill("127.0.0.1:1")
    page.get_by_role("button", name="Test connection").click()
    expect(page.locator("#tested")).to_contain_text("127.0.0.1:1")
    expect(page.get_by_label("Servers")).to_have_value("127.0.0.1:1")

    page.goto(reverse("structure-new"))
    page.get_by_label("Key paths").fill("$.assetnum\n$.siteid")
    page.get_by_label("Sample document").fill(SAMPLE)
    page.get_by_role("button", name="Try the paths").click()
    expect(page.locator("#beside")).to_contain_text('The key is ["P-1","7"]')
    page.get_by_label("Name").fill("places")
    save(page)
    expect(page.get_by_role("heading", level=1)).to_contain_text("places")

    page.goto(reverse("system", args=[numbers["system"]]))
    page.get_by_role("button", name="Switch off").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("off")
    assert ConfigurationChange.objects.count() == 2
