"""Personal tokens and the operator API in a real browser: made, used, read about, revoked."""

import urllib.request

import pytest
from django.urls import reverse
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from console.api.document import PREFIX
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.support.rows import a_blocked_queue

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_token_is_made_used_and_revoked(open_page: OpenPage, live_server: LiveServer) -> None:
    _, _, error = a_blocked_queue()
    page = open_page("Operators", width=WIDE)
    page.goto(reverse("account"))
    page.get_by_role("link", name="My tokens").click()
    page.get_by_role("link", name="Make a token…").click()
    page.get_by_role("button", name="Make the token").click()
    expect(page.get_by_text("No token was made")).to_be_visible()
    found = faults(page, "a mistake")
    page.get_by_label("Name").fill("nightly")
    page.get_by_label("release, hold, delete").check()
    page.get_by_role("button", name="Make the token").click()
    token = page.get_by_label("The token").input_value()
    found += faults(page, "made")
    asked = urllib.request.Request(  # noqa: S310 - our own address
        f"{live_server.url}{PREFIX}/failures/{error.pk}/releases",
        data=b'{"version": 1}',
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:  # noqa: S310 - as above
        assert answer.status == 200
    page.get_by_role("link", name="I have it").click()
    expect(page.get_by_role("row").filter(has_text="nightly").first).to_contain_text("Valid")
    page.get_by_text("Revoke…").click()
    found += faults(page, "a token")
    page.get_by_role("button", name="Revoke nightly").click()
    expect(page.get_by_text("nightly was revoked")).to_be_visible()
    assert found == []


def test_the_reference_and_the_call_of_a_list_are_read(open_page: OpenPage) -> None:
    a_blocked_queue()
    page = open_page("Viewers", width=WIDE)
    page.goto(reverse("failure-list"))
    page.get_by_text("As an API call").click()
    expect(page.get_by_label("For curl")).to_be_visible()
    found = faults(page, "call")
    page.get_by_role("link", name="What the API can do").click()
    page.get_by_text("Give a held message back to the engine").click()
    expect(page.get_by_text("sluice failures release")).to_be_visible()
    found += faults(page, "an operation")
    assert found == []
