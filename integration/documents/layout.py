"""JSON text with a line for each member, and what differs between two such texts."""

import re
from collections.abc import Iterator
from difflib import unified_diff
from typing import Final, NamedTuple

CONTEXT_LINES: Final = 2
# Deeper members stand below each other: blanks for each of hundreds of levels fill any memory.
DEEPEST_INDENT: Final = 40
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')


class Line(NamedTuple):
    """One line of a diff; `sign` is "+", "-" or a blank."""

    sign: str
    text: str


def laid_out(text: str) -> str:
    """JSON text with a line for each member.

    Every token stays as it is written: no number is rounded and no escape is changed.

    >>> print(laid_out('{"a":[1.10,{}],"b":"x,y"}'))
    {
      "a": [
        1.10,
        {}
      ],
      "b": "x,y"
    }
    """
    return "".join(_laid_out(_TOKEN.findall(text)))


def differences(before: str, after: str) -> Iterator[Line]:
    """Yield what changes between two JSON texts, with some lines around it."""
    texts = laid_out(before).splitlines(), laid_out(after).splitlines()
    for line in unified_diff(*texts, n=CONTEXT_LINES, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield Line(line[:1], line[1:])


def _laid_out(pieces: list[str]) -> Iterator[str]:
    depth = 0
    for place, piece in enumerate(pieces):
        before = pieces[place - 1] if place else ""
        if piece in "]}" and before in ("[", "{"):
            depth -= 1
            yield piece
            continue
        if piece in "]}":
            depth -= 1
        if piece in "]}" or before in ("[", "{", ","):
            yield "\n" + "  " * min(depth, DEEPEST_INDENT)
        yield f"{piece} " if piece == ":" else piece
        if piece in "[{":
            depth += 1
