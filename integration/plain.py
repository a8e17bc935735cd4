"""Texts of strangers made plain: what changes how others are read is spelt out."""

import math
import re
from typing import Final

# They turn the order of what follows them on the screen: "invoice\\u202efdp.exe" reads "…exe.pdf".
BIDI: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_BIDI: Final = re.compile(f"[{BIDI}]")
_UNPLAIN: Final = re.compile(f"[{BIDI}\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# Far more than anybody writes, and far less than what reads it by calling itself can do.
MOST_LEVELS: Final = 100


def is_storable(text: str) -> bool:
    """Return whether the database can hold it: no NUL, no half of a character."""
    return _UNSTORABLE.search(text) is None


def is_storable_json(value: object) -> bool:
    """Return whether it can hold a value of JSON: every text in it, names as well, and number."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str) and not is_storable(here):
            return False
        if isinstance(here, float) and not math.isfinite(here):
            return False
        if isinstance(here, dict):
            waiting += [*here, *here.values()]
        elif isinstance(here, list):
            waiting += here
    return True


def nests_deeply(value: object) -> bool:
    """Return whether a value of JSON has more than `MOST_LEVELS` of objects and lists."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inner: list[object] = []
        for here in level:
            if isinstance(here, dict):
                inner += here.values()
            elif isinstance(here, list):
                inner += here
        if not inner:
            return False
        level = inner
    return True


def without_bidi(text: str) -> str:
    r"""The text with every bidirectional control character as its escape, such as `\u202e`."""
    return _BIDI.sub(_escape, text)


def plain(text: str) -> str:
    """The text as one line, all its control characters as their escapes."""
    return _UNPLAIN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
