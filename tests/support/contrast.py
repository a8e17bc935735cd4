"""How readable a page's texts are, computed from the styles the browser really applies."""

from typing import Final

from playwright.sync_api import Page

# WCAG 2.2, criteria 1.4.3 and 1.4.11: 4.5 to 1, or 3 to 1 from 24 px or from 18.66 px in bold, and
# for signs beside a word (they are hidden from screen readers). What is disabled is exempt.
FIND: Final = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const painted = colours => {
    for (const colour of ["white", ...colours]) {
      pen.fillStyle = colour;
      pen.fillRect(0, 0, 1, 1);
    }
    return pen.getImageData(0, 0, 1, 1).data;
  };
  const luminance = colour => {
    const [r, g, b] = [...colour].map(value => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const stacks = new Map([[null, []]]);
  const layers = element => {
    if (!stacks.has(element)) {
      const own = getComputedStyle(element).backgroundColor;
      const below = layers(element.parentElement);
      stacks.set(element, own === "rgba(0, 0, 0, 0)" ? below : [...below, own]);
    }
    return stacks.get(element);
  };
  const ratios = new Map();
  const contrast = (back, colour) => {
    const key = [...back, colour].join();
    if (!ratios.has(key)) {
      const [light, dark] = [painted([...back, colour]), painted(back)]
        .map(luminance).sort((a, b) => b - a);
      ratios.set(key, (light + 0.05) / (dark + 0.05));
    }
    return ratios.get(key);
  };
  const found = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = texts.nextNode(); node; node = texts.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(":disabled, option, noscript")) continue;
    const style = getComputedStyle(element);
    const ratio = contrast(layers(element), style.color);
    const size = parseFloat(style.fontSize);
    const isSign = element.closest("[aria-hidden=true]") !== null;
    const isLarge = isSign || size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) {
      const name = element.tagName.toLowerCase() + "." + element.className;
      found.push(`${ratio.toFixed(2)} ${name}: ${node.data.trim().slice(0, 40)}`);
    }
  }
  return [...new Set(found)];
}"""


def open_panels(page: Page) -> None:
    """Show what a person would have to open first."""
    page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")


def too_faint(page: Page) -> list[str]:
    """The texts of this page that are below the limit, with their ratio; empty when all is well."""
    found: list[str] = page.evaluate(FIND)
    return found
