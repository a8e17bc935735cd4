"""Every page of the table of addresses in Chromium: axe, both themes, wide and narrow."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from devstack.servers import Servers
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
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


@pytest.mark.timeout(600)
def test_axe_finds_nothing_and_the_browser_has_no_complaint(
    open_page: OpenPage, servers: Servers, complaints: list[str]
) -> None:
    addresses = pages(servers)
    assert len(addresses) > 10, "the table of addresses was read"
    page = open_page("Administrators", width=WIDE)
    found = []
    for address in addresses:
        page.goto(address)
        found += faults(page)
    assert not found, "\n".join(found)
    assert complaints == []
