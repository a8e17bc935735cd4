"""Every page of the table of addresses in Chromium: axe, both themes, wide and narrow."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client

from devstack.servers import Servers
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import WIDE, faults
from tests.e2e.looks import Looks
from tests.support.builders import a_provider
from tests.support.every_page import PUBLIC, a_world, every_address, jms_pages
from tests.support.rows import some_live_processes

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

BAD = """<!doctype html><html lang="en" data-bs-theme="light"><head><title>Bad</title><script>
  matchMedia("(prefers-color-scheme: dark)").onchange = dark => {
    document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light";
  };
</script></head><body style="background: white; color: black"><main><h1>Bad</h1>
<p style="color: #777">just below</p><p style="color: #767676">just enough</p>
<p>A text with a <a href="/" style="color: #003366; text-decoration: none">link</a> like it.</p>
<button></button><p style="width: 500px">wide</p></main><p>astray</p></body></html>"""


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
    # Some of what is at a JMS broker has no page: the queue's says why.
    return found + [path for path in jms_pages(samples) if client.get(path).status_code == 200]


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
        found += faults(page, leave=True)
    assert not found, "\n".join(found)
    assert complaints == []


def test_a_bad_page_is_told_at_each_look(open_page: OpenPage) -> None:
    """What is remembered of a look (tests/e2e/faults.py) hides nothing from the next one."""
    page = open_page("Viewers", width=WIDE)
    page.goto("about:blank")
    page.set_content(BAD)
    for begins, ends in (("light", "dark"), ("dark", "light")):
        *told, wide = faults(page, "bad")
        assert wide.endswith("pixels wide on a screen of 390")
        assert sorted(fault.split(": ")[1:3] for fault in told) == sorted(
            [
                [f"{begins}, 1440", "button-name"],
                [f"{begins}, 1440", "color-contrast"],
                [f"{begins}, 1440", "link-in-text-block"],
                [f"{begins}, 1440", "region"],
                [f"{ends}, 1440", "color-contrast"],
                [f"{ends}, 1440", "link-in-text-block"],
            ]
        )


def test_what_was_fine_is_known_to_the_next_run_unless_something_has_changed(
    tmp_path: Path,
) -> None:
    first, same, other = (Looks(tmp_path / "looks") for _ in range(3))
    first.recall("axe", "browser 1")
    first.keep(["fine"])
    same.recall("axe", "browser 1")
    other.recall("axe", "browser 2")
    assert (same.known, other.known) == ({"fine"}, set())
