"""`python -m tests.support.screenshots FOLDER [ADDRESS …]`: pictures of the running console.

Each page wide and narrow, light and dark. What the browser complains of, and a page that is wider
than its screen, is printed; the exit status is then 1.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Page, sync_playwright

from devstack import chromium, errors, keys, paths
from devstack.app import App
from devstack.servers import as_left_in

WIDTHS = (1440, 390)
COLOURS: tuple[Literal["light", "dark"], ...] = ("light", "dark")
# A page by its address; "page -> link" is the first link of this kind on that page.
PAGES = {
    "overview": "/",
    "queues": "/queues/",
    "queue": "/queues/ -> /queues/(?!new/)[^/?]+/$",
    "queue-form": "/queues/new/",
    "causes": "/failures/",
    "failures": "/failures/messages/",
    "failure": "/failures/messages/?state=HOLD -> /failures/[0-9a-f-]{36}/",
    "operations": "/operations/",
    "operation": "/operations/ -> /operations/[0-9a-f-]{36}/$",
    "partner": "/partners/new/provider/",
    "cron": "/cron/",
    "cleanup": "/cleanup/",
    "outbox": "/outbox/",
    "people": "/people/",
}


@dataclass
class Album:
    """One person's look at the console; pictures go to the folder, complaints are kept."""

    browser: Browser
    app: App
    folder: Path
    complaints: list[str] = field(default_factory=list)

    def fill(self, pages: dict[str, str]) -> None:
        for colours in COLOURS:
            for width in WIDTHS:
                page = self._page(width, colours)
                for name, way in pages.items():
                    self._take(page, way, f"{name}-{width}-{colours}")
                page.context.close()

    def _page(self, width: int, colours: Literal["light", "dark"]) -> Page:
        context = self.browser.new_context(
            base_url=self.app.address,
            viewport={"width": width, "height": 900},
            color_scheme=colours,
        )
        page = context.new_page()
        page.on("console", lambda said: self._note(page, said.type, said.text))
        page.on("pageerror", lambda error: self._note(page, "error", str(error)))
        page.goto("/login/")
        page.get_by_label("Name").fill(keys.ADMINISTRATOR)
        page.get_by_label("Password").fill(password(self.app))
        page.get_by_role("button", name="Log in").click()
        page.wait_for_load_state("networkidle")
        return page

    def _take(self, page: Page, way: str, name: str) -> None:
        start, _, link = way.partition(" -> ")
        page.goto(start)
        page.wait_for_load_state("networkidle")
        if link:
            found = next(linked(page, link), None)
            if found is None:
                print(f"  {name}: {start} has no such link yet")
                return
            page.goto(found)
            page.wait_for_load_state("networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth")
        size = page.viewport_size
        if size is not None and wide > size["width"]:
            self.complaints.append(f"{name}: {wide} pixels wide")
        # Hiding the caret would write style attributes, which a swap under way copies: a complaint.
        page.screenshot(path=self.folder / f"{name}.png", full_page=True, caret="initial")

    def _note(self, page: Page, kind: str, text: str) -> None:
        if kind in {"error", "warning"}:
            self.complaints.append(f"{page.url}: {text}")


def linked(page: Page, pattern: str) -> Iterator[str]:
    """The addresses in the page's own content that match."""
    for link in page.locator("main a[href]").all():
        address = link.get_attribute("href") or ""
        if re.match(pattern, address):
            yield address


def password(app: App) -> str:
    """As `make run` printed it; a password that was changed since is not known here."""
    return keys.read_or_make(app.folder / "keys.json")["SLUICE_ADMIN_PASSWORD"]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    program = chromium.find()
    if program is None:
        print(chromium.MISSING, file=sys.stderr)
        return 1
    asked.folder.mkdir(parents=True, exist_ok=True)
    try:
        app = App(paths.STACK, as_left_in(paths.STACK))
    except errors.Problem as problem:
        print(f"{problem.what}\n{problem.remedy}", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        album = Album(browser, app, asked.folder)
        album.fill(chosen(asked.addresses))
        browser.close()
    for complaint in album.complaints:
        print(complaint, file=sys.stderr)
    return 1 if album.complaints else 0


def chosen(addresses: Sequence[str]) -> dict[str, str]:
    """The pages asked for by name or address; all of PAGES when none was."""
    if not addresses:
        return PAGES
    return {re.sub(r"\W+", "-", one).strip("-"): PAGES.get(one, one) for one in addresses}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.support.screenshots", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "addresses", nargs="*", metavar="ADDRESS", help=f"an address, or {', '.join(PAGES)}"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
