"""What keeps people from using a page: what axe finds in both themes, and what is too wide."""

from collections.abc import Sequence
from typing import Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.e2e.conftest import in_colours, settled

WIDE: Final = 1440
NARROW: Final = 390
# What only the colours can spoil.
OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
# Of all texts that axe has found readable, how they and all around them were painted. Most texts of
# a page look like others before, and each costs axe milliseconds.
READABLE: Final[set[str]] = set()
# Left to itself, axe also copies the source of what each rule looks at, often that of all the page.
RUN: Final = """async ([rules, readable]) => {
  const known = new Set(readable);
  const painting = ["color", "background-color", "background-image", "opacity", "font-size",
    "font-weight", "text-shadow", "position", "z-index", "filter", "mix-blend-mode", "visibility"];
  const painted = new Map([[null, ""]]);
  const look = element => {
    if (!painted.has(element)) {
      const style = getComputedStyle(element);
      const own = [element.tagName, element.matches(":disabled"), element.ariaDisabled,
        element.control?.disabled, ...painting.map(name => style.getPropertyValue(name))];
      let [a, b] = [0xdeadbeef, 0x41c6ce57];
      for (const sign of look(element.parentElement) + own.join()) {
        a = Math.imul(a ^ sign.charCodeAt(0), 2654435761);
        b = Math.imul(b ^ sign.charCodeAt(0), 1597334677);
      }
      painted.set(element, `${(a >>> 0).toString(36)} ${(b >>> 0).toString(36)}`);
    }
    return painted.get(element);
  };
  const hasText = element => element.matches("input, select, textarea, button") ||
    [...element.childNodes].some(one => one.nodeType === Node.TEXT_NODE && one.data.trim());
  for (const element of document.body.querySelectorAll("*")) {
    element.toggleAttribute("data-unknown", hasText(element) && !known.has(look(element)));
  }
  axe.configure({ noHtml: true, rules: [{ id: "color-contrast", selector: "[data-unknown]" }] });
  const { violations, passes } = await axe.run({
    resultTypes: ["violations", "passes"], elementRef: true, selectors: false,
    ...(rules && { runOnly: rules }),
  });
  const passed = passes.filter(one => one.id === "color-contrast").flatMap(one => one.nodes);
  return [
    violations.map(one => `${one.id}: ${one.nodes[0].element.outerHTML.slice(0, 160)}`),
    passed.map(one => look(one.element)),
  ];
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


def _violations(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    told: list[list[str]] = page.evaluate(RUN, [rules, list(READABLE)])
    READABLE.update(told[1])
    return told[0]
