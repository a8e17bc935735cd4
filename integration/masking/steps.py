"""Masking paths: names and * alone, so that what is hidden never depends on what stands beside it.

They are a part of the paths of object structures (`integration.paths`): JSONPath begins with `$`,
XPath with `/`. Places and conditions are left out on purpose: whoever may edit a message could move
a value past them. Arrays are looked through, so that one object and a list of them are the same.
"""

import re
from dataclasses import dataclass
from typing import Final

from integration.paths import BadPath, compile_path

MANY: Final = "[*]"
ANY: Final = "*"
ANY_ATTRIBUTE: Final = "@*"
_TEXT: Final = "text()"
_JSON_STEP: Final = re.compile(r"(\.\.?)(\*|[^\W\d]\w*)|(\.\.)?\[(?:'([^'\\]+)'|(\*))\]")
_XML_STEP: Final = re.compile(r"(//?)(\*|text\(\)|@\*|@?[^\W\d][\w.-]*)")
ONLY_NAMES: Final = (
    "a masking path has names and * only, no places and no conditions: what is masked must not "
    "depend on what stands beside it"
)


@dataclass(frozen=True, slots=True)
class Steps:
    """A masking path, taken apart. `deep` are the places of names that may stand at any depth."""

    text: str
    is_xml: bool
    names: tuple[str, ...]
    deep: frozenset[int]


def steps_of(text: str) -> Steps:
    """Return the steps of a masking path. Raises BadPath.

    >>> steps_of("$.customer.cards[*].number").names
    ('customer', 'cards', '[*]', 'number')
    >>> steps_of("//Card/@number").names
    ('Card', '@number')
    """
    compile_path(text)
    is_xml = text.startswith("/")
    found = _cut(text, _XML_STEP) if is_xml else _cut(text[1:], _JSON_STEP)
    if found is None:
        raise BadPath(path=text, reason=ONLY_NAMES)
    names: list[str] = []
    deep: set[int] = set()
    for step in found:
        if ".." in step.groups() or "//" in step.groups():
            deep.add(len(names))
        name = _name(step, is_xml=is_xml)
        if name != _TEXT:
            names.append(name)
    if not names or any(name.startswith("@") for name in names[:-1] if is_xml):
        raise BadPath(path=text, reason=ONLY_NAMES)
    return Steps(text, is_xml, tuple(names), frozenset(deep))


def _cut(text: str, step: re.Pattern[str]) -> list[re.Match[str]] | None:
    """Return the path as one step after the other; None where anything else is in it."""
    found, at = [], 0
    while at < len(text):
        here = step.match(text, at)
        if here is None:
            return None
        found.append(here)
        at = here.end()
    return found


def _name(step: re.Match[str], *, is_xml: bool) -> str:
    if is_xml:
        return step[2]
    return step[2] or step[4] or MANY
