"""Every page of the table of addresses in Chromium: axe, both themes, wide and narrow."""

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Page

from devstack.servers import Servers
from tests.e2e.conftest import OpenPage, in_colours, settled
from tests.support.builders import a_provider
from tests.support.every_page import PUBLIC, a_world, every_address
from tests.support.rows import some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def pages(servers: Servers) -> list[str]:
    """Addresses that answer an administrator with a page."""
    some_live_processes()
    samples = a_world("every-page", provider=a_provider(servers.kafka_bootstrap))
    client = Client()
    client.force_login(User.objects.create_superuser("root"))
    found = []
    for address in every_address(samples):
        if address.name in PUBLIC:
            continue
        answer = client.get(address.path)
        # A part of a page is looked at where it stands.
        if answer.status_code == 200 and not answer.streaming and b"<html" in answer.content:
            found.append(address.path)
    return found


def in_the_dark(page: Page, axe: Axe) -> list[Any]:
    """What of the same page only its colours can spoil."""
    in_colours(page, "dark")
    told = axe.run(page, options={"runOnly": ["color-contrast"]}).response["violations"]
    in_colours(page, "light")
    return list(told)


@pytest.mark.timeout(600)
def test_axe_finds_nothing_and_the_browser_has_no_complaint(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    addresses = pages(servers)
    assert len(addresses) > 10, "the table of addresses was read"
    page = open_page("Administrators")
    axe = Axe()
    found = {}
    for address in addresses:
        page.set_viewport_size({"width": 1440, "height": 900})
        page.goto(address)
        settled(page)
        told = axe.run(page).response["violations"] + in_the_dark(page, axe)
        problems = [f"{one['id']}: {one['nodes'][0]['html'][:160]}" for one in told]
        page.set_viewport_size({"width": 390, "height": 844})
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > 390:
            problems.append(f"{wide} pixels wide on a screen of 390")
        if problems:
            found[address] = problems
    assert not found, "\n".join(f"{path}: {told}" for path, told in found.items())
    assert complaints == []
