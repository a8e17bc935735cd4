"""The company login in a real browser: a rule is written, somebody comes in by it and leaves."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from devstack import ports
from tests.e2e.conftest import OpenPage, account_of
from tests.e2e.faults import WIDE, faults

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

GROUP = "/plant/operators"
BEAUTY = "https://cdn.jsdelivr.net/**"
FROM_AFAR = "foreign request: https://cdn.jsdelivr.net/"


@pytest.fixture
def issuer(settings: Any) -> Iterator[str]:
    """An identity provider of somebody else's making, in a process of its own."""
    port = ports.choose()
    argv = [sys.executable, "-m", "oidc_provider_mock", "--port", str(port)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(argv, stdout=quiet, stderr=quiet) as process:
        address = f"http://localhost:{port}"
        try:
            wait_for(f"{address}/.well-known/openid-configuration", process)
            settings.SLUICE_OIDC_ISSUER = address
            settings.SLUICE_OIDC_CLIENT_ID = "sluice"
            settings.SLUICE_OIDC_CLIENT_SECRET = "a secret of these two"
            yield address
        finally:
            process.kill()


def wait_for(address: str, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(address, timeout=60).close()  # noqa: S310 - our own address
        except OSError:
            assert process.poll() is None, "the identity provider has ended"
            assert time.monotonic() < end, "the identity provider does not answer"
            time.sleep(0.1)
        else:
            return


def in_groups(issuer: str, *groups: str) -> None:
    """Tell the provider who Olga is."""
    claims = {"preferred_username": "olga", "email": "olga@example.org", "groups": groups}
    asked = urllib.request.Request(  # noqa: S310 - our own address
        f"{issuer}/users/olga-7",
        data=json.dumps(claims).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(asked, timeout=60).close()  # noqa: S310 - as above


def authorize(page: Page) -> None:
    """On the provider's page."""
    page.locator("input[name=sub]").fill("olga-7")
    page.get_by_role("button", name="Authorize").click()


def write_a_rule(page: Page) -> list[str]:
    """As an administrator does, not without a mistake."""
    page.goto(reverse("people"))
    page.get_by_role("link", name="Groups…").click()
    found = faults(page, "no rule")
    page.get_by_role("link", name="Add a rule").click()
    page.get_by_role("button", name="Save").click()
    found += faults(page, "a mistake")
    page.get_by_role("combobox", name="Group").fill(GROUP)
    page.get_by_label("Operators: may").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text(f"The rule for {GROUP} was saved.")).to_be_visible()
    return found


def come_in(page: Page) -> list[str]:
    """As Olga, on the way to the queues."""
    page.context.clear_cookies()
    page.goto(reverse("queues"))
    found = faults(page, "the login")
    page.get_by_role("link", name="Company login").click()
    authorize(page)
    expect(account_of(page)).to_have_text("olga")
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    page.goto(reverse("account"))
    expect(page.get_by_text("Roles by your groups: Operators.")).to_be_visible()
    page.get_by_role("link", name="My sessions").click()
    expect(page.get_by_text("This one")).to_be_visible()
    return found


def test_a_group_lets_somebody_in_and_out(
    open_page: OpenPage, issuer: str, settings: Any, complaints: list[str]
) -> None:
    in_groups(issuer, GROUP)
    page = open_page("Administrators", width=WIDE)
    # The provider's own page wants to be beautiful.
    page.route(BEAUTY, lambda route: route.fulfill(body="", content_type="text/css"))
    found = write_a_rule(page) + come_in(page)

    in_groups(issuer)
    # Each page asks.
    settings.SLUICE_OIDC_RECHECK_MINUTES = -1
    page.goto(reverse("queues"))
    authorize(page)
    expect(page.get_by_text("IDENTITY_WITHOUT_ROLE")).to_be_visible()
    found += faults(page, "let go")
    page.get_by_role("link", name="To the login").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.unroute(BEAUTY)
    assert found == []
    # The browser notes each page that refuses, and each request to the provider is meant.
    meant = (f"foreign request: {issuer}", FROM_AFAR, "status of 403", "status of 422")
    assert [one for one in complaints if not any(words in one for words in meant)] == []
