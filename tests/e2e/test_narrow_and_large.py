"""Where a page meets its limits: a narrow screen, and a message too long for a text field."""

import json
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import expect

from integration.selectors.failures.text_fields import FIELD_CHARACTERS
from tests.e2e.conftest import OpenPage
from tests.e2e.faults import NARROW, too_wide
from tests.support.rows import a_held, a_queue_row, an_envelope

pytestmark = [pytest.mark.servers, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

# Where each of these is, and how high.
BOXES = """all => all.map(one => one.getBoundingClientRect())
  .map(({ left, right, height }) => [left, right, height])"""


def test_every_link_of_the_menu_is_in_sight_on_a_narrow_screen(open_page: OpenPage) -> None:
    page = open_page("Administrators", width=NARROW)
    page.goto(reverse("overview"))
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    for width in (320, 360, NARROW):
        assert too_wide(page, width) == []
        expect(links).to_have_count(0)
        page.get_by_label("Show the menu").check(force=True)
        expect(links.first).to_be_visible()
        for left, right, height in links.evaluate_all(BOXES):
            assert left >= 0
            assert right <= width
            assert height < 40, "no link is broken into two lines"
        assert too_wide(page, width) == []
        page.get_by_label("Show the menu").uncheck(force=True)


def test_a_long_message_is_downloaded_corrected_and_uploaded_without_javascript(
    open_page: OpenPage, tmp_path: Path
) -> None:
    wrapped = an_envelope({"code": "WRONG", "note": "x" * FIELD_CHARACTERS}, compressed=False)
    error = a_held(a_queue_row("continuous"), payload=wrapped)
    page = open_page("Editors", javascript=False)
    page.goto(reverse("edit", args=[error.pk]))
    with page.expect_download() as started:
        page.get_by_role("link", name="Download the document").click()
    corrected = tmp_path / "corrected.json"
    corrected.write_bytes(started.value.path().read_bytes().replace(b"WRONG", b"RIGHT"))
    page.get_by_label("Choose the corrected file").set_input_files(corrected)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Saved. The original is kept")).to_be_visible()
    error.refresh_from_db()
    kept, came = json.loads(error.current_payload or b""), json.loads(wrapped)
    assert kept == {**came, "payload": came["payload"].replace("WRONG", "RIGHT")}
