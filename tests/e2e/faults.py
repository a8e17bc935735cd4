"""What keeps people from using a page: what axe finds in both themes, and what is too wide."""

from collections.abc import Sequence
from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.e2e.conftest import in_colours, settled

WIDE: Final = 1440
NARROW: Final = 390
# What only the colours can spoil.
OF_COLOURS: Final = ("color-contrast", "link-in-text-block")
RUN: Final = """async rules => {
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await axe.run(options);
  return violations.map(one => `${one.id}: ${one.nodes[0].html.slice(0, 160)}`);
}"""


def faults(page: Page, where: str = "", *, widths: Sequence[int] = (WIDE,)) -> list[str]:
    """What axe finds at these widths in both themes, and the screens that the page is too wide for.

    One load serves all of it. It begins with a light page, and leaves it light and wide.
    """
    settled(page)
    page.evaluate(AXE_SCRIPT)
    found = []
    for width in sorted({*widths, NARROW}, reverse=True):
        found += too_wide(page, width)
        if width in widths:
            found += [f"light, {width}: {one}" for one in _violations(page)]
            in_colours(page, "dark")
            found += [f"dark, {width}: {one}" for one in _violations(page, OF_COLOURS)]
            in_colours(page, "light")
    page.set_viewport_size({"width": WIDE, "height": 900})
    return [f"{where or page.url}: {one}" for one in found]


def too_wide(page: Page, width: int) -> list[str]:
    """Give the page a screen of this width: the complaint, where it does not fit."""
    page.set_viewport_size({"width": width, "height": 900})
    needed = page.evaluate("document.documentElement.scrollWidth")
    return [f"{needed} pixels wide on a screen of {width}"] if needed > width else []


def _violations(page: Page, rules: Sequence[str] | None = None) -> list[Any]:
    told: list[Any] = page.evaluate(RUN, rules)
    return told
