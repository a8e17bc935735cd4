"""What keeps people from using a page: what axe finds in both themes, and what is too wide."""

from collections.abc import Sequence
from typing import Final
from weakref import WeakSet

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

from tests.e2e.conftest import in_colours, settled
from tests.e2e.looks import Looks

WIDE: Final = 1440
NARROW: Final = 390
# What only the colours can spoil.
OF_COLOURS: Final = ["color-contrast", "link-in-text-block"]
# Waits in each further document of a page that was looked at once: it is not sent for each, and
# where nothing has to be run it stays as it is.
LOAD: Final = f"globalThis.loadAxe = () => {{\n{AXE_SCRIPT}\n}};"
LOADED: Final[WeakSet[Page]] = WeakSet()
# Of all texts that axe has found readable, how they and all around them were painted; of those that
# it cannot judge, where they stood as well. Most texts of a page look like others before, and each
# costs axe milliseconds.
SEEN: Final = Looks()
# Left to itself, axe copies the source of what each rule looks at, reads all style sheets, and asks
# of each element of `main` whether a landmark is around it.
RUN: Final = """async ([rules, seen]) => {
  const known = new Set(seen.split("\\n"));
  const again = new Set();
  const met = look => known.has(look) && Boolean(again.add(look));
  const painting = ["color", "background-color", "background-image", "opacity", "font-size",
    "font-weight", "text-shadow", "text-decoration-line", "position", "z-index", "filter",
    "mix-blend-mode", "visibility"];
  const painted = new Map([[null, ""]]);
  const hash = text => {
    let [a, b] = [0xdeadbeef, 0x41c6ce57];
    for (let place = 0; place < text.length; place++) {
      const sign = text.charCodeAt(place);
      a = Math.imul(a ^ sign, 2654435761);
      b = Math.imul(b ^ sign, 1597334677);
    }
    return `${(a >>> 0).toString(36)} ${(b >>> 0).toString(36)}`;
  };
  const look = element => {
    if (!painted.has(element)) {
      const style = getComputedStyle(element);
      const own = [element.tagName, element.matches(":disabled"), element.ariaDisabled,
        element.control?.disabled, ...painting.map(name => style.getPropertyValue(name))];
      painted.set(element, hash(look(element.parentElement) + own.join()));
    }
    return painted.get(element);
  };
  const place = element => {
    let path = `${innerWidth} ${look(element)} ${element.outerHTML}`;
    for (let one = element.parentElement; one; one = one.parentElement) {
      path += ` ${one.tagName} ${one.getAttribute("class")}`;
    }
    return hash(path);
  };
  const hasText = element => element.matches("input, select, textarea, button") ||
    [...element.childNodes].some(one => one.nodeType === Node.TEXT_NODE && one.data.trim());
  const unknown = new Map();
  for (const element of document.body.querySelectorAll("*")) {
    if (!hasText(element) || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (met(look(element))) continue;
    const stands = place(element);
    if (!met(stands)) unknown.set(element, stands);
  }
  if (rules && unknown.size === 0) return [[], [...again].join("\\n")];
  for (const element of unknown.keys()) element.setAttribute("data-unknown", "");
  if (!globalThis.axe) {
    loadAxe();
    axe.configure({ noHtml: true, rules: [
      { id: "color-contrast", selector: "[data-unknown]" },
      { id: "region", selector: "body *:not(main *)" },
    ] });
  }
  // The same on most pages, but for the place of this page in the menu.
  const header = document.querySelector("body > header");
  const top = header && hash(innerWidth + header.outerHTML
    .replaceAll(/ data-unknown=""|(?<=csrfmiddlewaretoken" value=")\\w+|updated \\d+ s ago/g, ""));
  const isNew = rules || !met(top) || header.querySelector("[data-unknown]");
  const results = await axe.run(isNew ? document : { exclude: ["body > header"] }, {
    elementRef: true, preload: false, selectors: false, reporter: found => found,
    ...(rules && { runOnly: rules }),
  });
  const elements = nodes => nodes.map(one => one.node.element);
  for (const element of unknown.keys()) element.removeAttribute("data-unknown");
  const { passes, violations } = results.find(one => one.id === "color-contrast");
  for (const element of elements([...passes, ...violations])) unknown.delete(element);
  const faulty = results.filter(one => one.violations.length > 0);
  if (faulty.length === 0 && top && !rules) unknown.set(header, top);
  return [
    faulty.map(one => `${one.id}: ${elements(one.violations)[0].outerHTML.slice(0, 160)}`),
    [...again, ...elements(passes).map(look), ...unknown.values()].join("\\n"),
  ];
}"""


def faults(
    page: Page, where: str = "", *, widths: Sequence[int] = (WIDE,), leave: bool = False
) -> list[str]:
    """What axe finds at these widths in both themes, and the screens that the page is too wide for.

    One load serves all of it. It begins in the colours that the last look ended in, and leaves the
    page wide; or, with `leave`, as it then is, and the next look begins at that width.
    """
    settled(page)
    if page not in LOADED:
        page.add_init_script(LOAD)
        page.evaluate(LOAD)
        LOADED.add(page)
        browser = page.context.browser
        SEEN.recall(AXE_SCRIPT, RUN, browser.version if browser else "")
    themes = ["light", "dark"]
    if page.evaluate("document.documentElement.dataset.bsTheme") == "dark":
        themes.reverse()
    found = []
    is_narrow = page.viewport_size is not None and page.viewport_size["width"] == NARROW
    for width in sorted({*widths, NARROW}, reverse=not is_narrow):
        found += too_wide(page, width)
        if width in widths:
            found += [f"{themes[0]}, {width}: {one}" for one in _violations(page)]
            themes.reverse()
            in_colours(page, themes[0])
            found += [f"{themes[0]}, {width}: {one}" for one in _violations(page, OF_COLOURS)]
    if not leave:
        _give(page, WIDE)
    return [f"{where or page.url}: {one}" for one in found]


def too_wide(page: Page, width: int) -> list[str]:
    """Give the page a screen of this width: the complaint, where it does not fit."""
    _give(page, width)
    needed = page.evaluate("document.documentElement.scrollWidth")
    return [f"{needed} pixels wide on a screen of {width}"] if needed > width else []


def _give(page: Page, width: int) -> None:
    """Let its screen be so wide; the browser would lay the page out anew where it is already."""
    if page.viewport_size is None or page.viewport_size["width"] != width:
        page.set_viewport_size({"width": width, "height": 900})


def _violations(page: Page, rules: Sequence[str] | None = None) -> list[str]:
    told, seen = page.evaluate(RUN, [rules, "\n".join(SEEN.known)])
    SEEN.keep(seen.split("\n"))
    return list(told)
