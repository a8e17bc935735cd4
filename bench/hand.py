"""A person with a mouse at the console, in a real Chromium; clicks and fields are counted."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from playwright.sync_api import Error, Locator, Page, sync_playwright

from bench.rig import BenchmarkError
from devstack import chromium

# The time a quick person needs to find the next button, before every click and every field.
LOOK_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0


class Hand:
    """One person at one page. `complaints` is what the browser's console said against it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.clicks = 0
        self.fields = 0
        self.complaints: list[str] = []
        page.on("console", lambda entry: self._note(entry.type, entry.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def log_in(self, name: str, password: str) -> None:
        """Nothing of it is counted."""
        self.page.goto("/login/")
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("heading", name="Overview").wait_for(state="attached")

    def click(self, what: Locator) -> None:
        time.sleep(LOOK_SECONDS)
        what.click()
        self.clicks += 1

    def press(self, name: str) -> None:
        """Press the button of this name."""
        self.click(self.page.get_by_role("button", name=name))

    def write(self, label: str, text: str) -> None:
        """Fill the field of this label; the Tab key leads there."""
        time.sleep(LOOK_SECONDS)
        named = re.compile(rf"^\s*{re.escape(label)}\s*\*?\s*$")  # a star: it has to be filled
        self.page.get_by_label(named).fill(text)
        self.fields += 1

    def _note(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(text)


@contextmanager
def at_the_console(address: str, folder: Path) -> Iterator[Hand]:
    """A browser at this address.

    Raises BenchmarkError where there is no Chromium, and when the hand found no way on: the
    folder then holds a picture of the page.
    """
    program = chromium.find()
    if program is None:
        raise BenchmarkError(chromium.MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        page = browser.new_page(base_url=address, viewport={"width": 1440, "height": 900})
        page.set_default_timeout(PATIENCE_SECONDS * 1_000)
        try:
            yield Hand(page)
        except (Error, AssertionError) as refusal:
            picture = folder / "page.png"
            page.screenshot(path=picture, full_page=True)
            why = str(refusal).strip()[:400]
            raise BenchmarkError(f"no way on at {page.url} (picture: {picture}): {why}") from None
        finally:
            browser.close()
