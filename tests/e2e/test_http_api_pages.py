"""The page of a system's HTTP API in a real browser: a token is made, used and revoked."""

import json
import urllib.request

import pytest
from django.urls import reverse
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from integration.models import EnterpriseService, ExternalSystem, OutboxRow
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.support.rows import a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_token_is_made_used_rotated_and_revoked(
    open_page: OpenPage, live_server: LiveServer
) -> None:
    system = ExternalSystem.objects.create(name="eam", legacy_door=True)
    service = EnterpriseService.objects.create(interface="MXASSETInterface")
    a_queue_row("continuous", system=system, default_service=service)
    page = open_page("Administrators", width=WIDE)
    page.goto(reverse("system", args=[system.pk]))
    page.get_by_role("link", name="HTTP API", exact=True).click()
    found = faults(page, "no token")
    page.get_by_role("link", name="Make a token…").click()
    page.get_by_label("Name").fill("erp")
    page.get_by_role("button", name="Make the token").click()
    token = page.get_by_label("The token").input_value()
    found += faults(page, "made")
    asked = urllib.request.Request(  # noqa: S310 - our own address
        f"{live_server.url}/esqueue/eam/MXASSETInterface",
        data=json.dumps({"assetnum": "P-1"}).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - as above
        assert answer.status == 202
    assert OutboxRow.objects.count() == 1
    page.get_by_role("link", name="I have it").click()
    row = page.get_by_role("row").filter(has_text="erp").first
    expect(row).to_contain_text("Valid")
    page.get_by_text("Rotate…").click()
    page.get_by_role("button", name="Rotate erp").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Token erp.2")
    page.get_by_role("link", name="I have it").click()
    found += faults(page, "two tokens")
    page.get_by_text("Revoke…").first.click()
    page.get_by_role("button", name="Revoke erp", exact=True).click()
    expect(page.get_by_text("erp was revoked")).to_be_visible()
    assert found == []
