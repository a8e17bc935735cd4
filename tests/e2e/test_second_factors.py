"""A passkey and an authenticator app in a real browser: added, and shown at the next login."""

import time

import pyotp
import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import expect

from tests.e2e.conftest import OpenPage, account_of
from tests.e2e.faults import WIDE, faults
from tests.support.rows import PASSWORD

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Stands for a computer that knows its user's finger.
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


def test_a_passkey_is_made_and_shown_at_the_next_login(
    open_page: OpenPage, complaints: list[str]
) -> None:
    page = open_page("Operators", width=WIDE)
    name = User.objects.get().username
    device = page.context.new_cdp_session(page)
    device.send("WebAuthn.enable")
    device.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})
    page.goto(reverse("account"))
    page.get_by_role("link", name="Second factors").click()
    page.get_by_role("link", name="Add a passkey…").click()
    page.get_by_role("button", name="Make the passkey").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    found = faults(page, "recovery codes")
    page.get_by_role("link", name="I have them").click()
    expect(page.get_by_role("row").filter(has_text="My computer")).to_be_visible()
    found += faults(page, "factors")

    page.context.clear_cookies()
    page.goto(reverse("login"))
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Second factor")).to_be_visible()
    found += faults(page, "the second step")
    page.get_by_role("button", name="Use a passkey").click()
    expect(account_of(page)).to_have_text(name)
    device.send("WebAuthn.disable")
    assert found == []
    assert complaints == []


def test_an_app_is_added_by_its_key(open_page: OpenPage) -> None:
    page = open_page("Viewers")
    page.goto(reverse("second-factor-app"))
    secret = page.locator("code.user-select-all").inner_text()
    page.get_by_label("Code").fill(pyotp.TOTP(secret).at(time.time()))
    page.get_by_role("button", name="Add the app").click()
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
