"""Texts about a message, such as errors and tracebacks, without its hidden values."""

import json
from collections.abc import Iterable
from typing import Final

# Shorter ones stand in every other text, and tell nothing there.
SHORTEST: Final = 4
# Each is looked for on its own: of a message with more of them, no text is shown.
MOST: Final = 2_000


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
    """A value as it is, and as JSON and Python write it."""
    yield value
    yield value.strip()
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    # Python chooses the other quotation marks where a text holds one kind.
    yield value.replace("\\", "\\\\").replace("'", "\\'")
