"""Two texts compared line by line, within a bounded time."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Final, NamedTuple

# Pairs of equal lines that are looked at: some tenths of a second. Lines that repeat, as the
# brackets of a long array do, make many of them.
MOST_STEPS: Final = 3_000_000
Opcode = tuple[str, int, int, int, int]


class Hunk(NamedTuple):
    """Lines that differ and some around them, each with its sign: "+" new, "-" gone, " " the same.

    `line` is the number that the first of them has in the new text.
    """

    line: int
    lines: list[tuple[str, str]]


class _TooManyStepsError(Exception):
    """Finding out what differs takes too long."""


class _Matcher(SequenceMatcher[str]):
    """Gives up in time: each search for a match goes through the pairs of its lines once more."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new, autojunk=False)
        counts = Counter(new)
        self._steps_before = list(accumulate((1 + counts[line] for line in old), initial=0))
        self._steps_left = MOST_STEPS
        self._end = len(old)

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        end = self._end if ahi is None else ahi
        self._steps_left -= self._steps_before[end] - self._steps_before[alo]
        if self._steps_left < 0:
            raise _TooManyStepsError
        return super().find_longest_match(alo, ahi, blo, bhi)


def hunks(old: Sequence[str], new: Sequence[str], context: int) -> list[Hunk] | None:
    """What differs, with `context` lines around it; None if finding it out would take too long."""
    start, end = shared(old, new)
    first, behind = max(0, start - context), max(0, end - context)
    old, new = old[first : len(old) - behind], new[first : len(new) - behind]
    try:
        groups = list(_Matcher(old, new).get_grouped_opcodes(context))
    except _TooManyStepsError:
        return None
    return [Hunk(first + group[0][3] + 1, list(_signed(old, new, group))) for group in groups]


def shared(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Count the lines that the two share at their beginning and at their end."""
    least = min(len(old), len(new))
    start = next((n for n in range(least) if old[n] != new[n]), least)
    rest = least - start
    end = next((n for n in range(rest) if old[-1 - n] != new[-1 - n]), rest)
    return start, end


def _signed(
    old: Sequence[str], new: Sequence[str], group: Iterable[Opcode]
) -> Iterator[tuple[str, str]]:
    for tag, a, b, c, d in group:
        if tag == "equal":
            yield from ((" ", line) for line in old[a:b])
            continue
        yield from (("-", line) for line in old[a:b])
        yield from (("+", line) for line in new[c:d])
