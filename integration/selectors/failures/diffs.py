"""Two texts compared line by line, for people: what is the same is left out but for its edges."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from integration.documents.layout import laid_out
from integration.selectors.failures.payloads import is_json

# Comparing takes time in proportion to the product of what differs.
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
    start, end = _common(old, new)
    middle = max(len(old), len(new)) - start - end
    if middle > MOST_LINES:
        return Diff((), 0, 0, is_long=True)
    lines = tuple(_marked(old, new, SequenceMatcher(None, old, new, autojunk=False)))
    added = sum(line.sign == "+" for line in lines)
    return Diff(lines, added, sum(line.sign == "-" for line in lines))


def _lines(text: str) -> list[str]:
    shown = laid_out(text) if "\n" not in text.strip() and is_json(text) else text
    return shown.replace("\r\n", "\n").split("\n")


def _common(old: list[str], new: list[str]) -> tuple[int, int]:
    """Count the lines the two share at their beginning and at their end."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    rest = least - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return start, end


def _marked(old: list[str], new: list[str], matcher: SequenceMatcher[str]) -> Iterator[DiffLine]:
    for group in matcher.get_grouped_opcodes(CONTEXT):
        yield DiffLine("@", f"line {group[0][3] + 1}")
        for tag, a, b, c, d in group:
            if tag == "equal":
                yield from (DiffLine(" ", line) for line in old[a:b])
                continue
            yield from (DiffLine("-", line) for line in old[a:b])
            yield from (DiffLine("+", line) for line in new[c:d])
