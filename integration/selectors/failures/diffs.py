"""Two texts compared line by line, for people: what is the same is left out but for its edges."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from integration.documents.comparing import Hunk, hunks, shared
from integration.documents.layout import laid_out
from integration.selectors.failures.payloads import is_json

# Nobody reads more of them on a page.
MOST_LINES: Final = 2_000
CONTEXT: Final = 3


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: sign "+" for new, "-" for gone, " " for the same, "@" for a place further on."""

    sign: str
    text: str

    @property
    def word(self) -> str:
        """The sign for those who do not see it."""
        return {"+": "new", "-": "gone", "@": "at"}.get(self.sign, "")


@dataclass(frozen=True, slots=True)
class Diff:
    """The differences; `is_same` when there are none, `is_long` when they were not looked for."""

    lines: tuple[DiffLine, ...]
    added: int
    removed: int
    is_long: bool = False

    @property
    def is_same(self) -> bool:
        return not self.lines and not self.is_long


def difference(before: str, after: str) -> Diff:
    """Compare with `before`. JSON of one line is laid out first: each member has its line."""
    old, new = _lines(before), _lines(after)
    is_readable = max(len(old), len(new)) - sum(shared(old, new)) <= MOST_LINES
    found = hunks(old, new, CONTEXT) if is_readable else None
    if found is None:
        return Diff((), 0, 0, is_long=True)
    lines = tuple(_marked(found))
    added = sum(line.sign == "+" for line in lines)
    return Diff(lines, added, sum(line.sign == "-" for line in lines))


def _lines(text: str) -> list[str]:
    shown = laid_out(text) if "\n" not in text.strip() and is_json(text) else text
    return shown.replace("\r\n", "\n").split("\n")


def _marked(found: Iterable[Hunk]) -> Iterator[DiffLine]:
    for hunk in found:
        yield DiffLine("@", f"line {hunk.line}")
        yield from (DiffLine(sign, text) for sign, text in hunk.lines)
