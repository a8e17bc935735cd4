"""Texts about a message, such as errors and tracebacks, without its hidden values."""

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final
from xml.sax.saxutils import escape

# Shorter ones stand in every other text, and tell nothing there.
SHORTEST: Final = 4
# Each is looked for on its own: of a message with more of them, no text is shown.
MOST: Final = 2_000
# A number as JSON and XML write it. One that is longer, or has a longer exponent, is looked for as
# it was written only: nobody's amounts are like that, and writing it otherwise takes time.
_NUMBER: Final = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d{1,4})?", re.ASCII)
LONGEST_NUMBER: Final = 400
# Written without an exponent it has no more digits than this before or after the point.
LARGEST_PLAIN: Final = 40


class Words:
    """Values to be replaced wherever they stand in a text, the longest first."""

    def __init__(self, values: Iterable[str], said: str, *, is_known: bool = True) -> None:
        """Without `is_known` nobody knows all values: no text of that message is shown."""
        ways = {way for value in values for way in _ways(value) if len(way) >= SHORTEST}
        self._said = said
        self._is_over = not is_known or len(ways) > MOST
        self._ways = () if self._is_over else tuple(sorted(ways, key=lambda way: (-len(way), way)))

    def hide(self, text: str) -> str:
        r"""The text without these values.

        >>> Words(["O'Neil"], "…").hide("no customer 'O\\'Neil'")
        "no customer '…'"
        """
        if self._is_over:
            return self._said if text else ""
        for way in self._ways:
            if way in text:
                text = text.replace(way, self._said)
        return text


def _ways(value: str) -> Iterable[str]:
    """A value as it is, as JSON, XML and Python write it, and a number in other notations."""
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    # Python chooses the other quotation marks where a text holds one kind.
    yield value.replace("\\", "\\\\").replace("'", "\\'")
    yield escape(value)
    # As it stands in an attribute.
    yield escape(value, {'"': "&quot;"})
    yield from _notations(value.strip())


def _notations(value: str) -> Iterable[str]:
    """A number as Python writes it, which reads 1.5e10 as a Decimal and writes 1.5E+10.

    A way that has the value in it is left out: the value is found in it anyway.
    """
    if not SHORTEST <= len(value) <= LONGEST_NUMBER or not _NUMBER.fullmatch(value):
        return
    number = Decimal(value)
    ways = [str(number), repr(float(value))]
    if abs(number.adjusted()) <= LARGEST_PLAIN:
        ways.append(f"{number:f}")
    yield from (way for way in ways if value not in way)
