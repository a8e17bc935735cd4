"""Cuts files of text into ranges of whole rows: behind line ends outside of quotes."""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, Final, NamedTuple

_BLOCK_BYTES: Final = 2**20
_BOM: Final = b"\xef\xbb\xbf"
Passed = Callable[[int], None]
"""Called with the size of each block that was read; what it raises ends the reading."""


class Cut(NamedTuple):
    """A range of one file, as `rows.Range` has it."""

    begin: int
    end: int
    line: int
    by_line: bool = False


def cuts(
    file: BinaryIO, size: int, quote: bytes, range_bytes: int, passed: Passed
) -> Iterator[Cut]:
    """The ranges of a file. Without a quote each line is a row; with one it is read twice."""
    begin = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
    by_line = bool(quote) and not _pairs_up(file, begin, quote, passed)
    file.seek(begin)
    blocks = _blocks(file, passed)
    marks = _marks(blocks, begin, size, b"" if by_line else quote, range_bytes)
    first, line = begin, 1
    for place, next_line in [*marks, (size, 0)]:
        if place > first:
            yield Cut(first, place, line, by_line)
        first, line = place, next_line


def _pairs_up(file: BinaryIO, begin: int, quote: bytes, passed: Passed) -> bool:
    file.seek(begin)
    return sum(block.count(quote) for block in _blocks(file, passed)) % 2 == 0


def _marks(
    blocks: Iterator[bytes], begin: int, size: int, quote: bytes, range_bytes: int
) -> Sequence[tuple[int, int]]:
    """Find where the next ranges begin, with their lines: behind a line's end outside of quotes."""
    marks: list[tuple[int, int]] = []
    place, line, is_open, target = begin, 1, False, begin + range_bytes
    for block in blocks:
        here = 0
        while target < place + len(block):
            cut = _line_end(block, max(target - place, here), here, quote, is_open=is_open)
            if cut is None:
                break
            marks.append((place + cut, line + block.count(b"\n", 0, cut)))
            target = place + cut + range_bytes
        is_open ^= bool(quote) and block.count(quote) % 2 == 1
        place, line = place + len(block), line + block.count(b"\n")
    return [mark for mark in marks if mark[0] < size]


def _line_end(block: bytes, target: int, begin: int, quote: bytes, *, is_open: bool) -> int | None:
    """Find the end of the first line at or after `target` that is outside of quotes."""
    is_inside, last = is_open, 0
    cut = block.find(b"\n", target) + 1
    while cut:
        is_inside ^= bool(quote) and block.count(quote, last, cut) % 2 == 1
        if not is_inside and cut > begin:
            return cut
        last, cut = cut, block.find(b"\n", cut) + 1
    return None


def _blocks(file: BinaryIO, passed: Passed) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        passed(len(block))
        yield block
