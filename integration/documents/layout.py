"""JSON text with a line for each member, and what differs between two such texts."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from integration.documents.comparing import hunks

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


def differences(before: str, after: str) -> list[Line] | None:
    """What changes between two JSON texts, with some lines around it.

    None if finding it out would take too long.
    """
    found = hunks(laid_out(before).splitlines(), laid_out(after).splitlines(), CONTEXT_LINES)
    return None if found is None else [Line(*line) for hunk in found for line in hunk.lines]


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
