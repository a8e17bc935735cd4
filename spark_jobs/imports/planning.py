"""Cuts files into ranges of whole rows, before anything is read: a rerun reads the same ones."""

import glob
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.problems import JobError
from spark_jobs.problems import changed as file_changed

RANGE_BYTES: Final = 8 * 2**20
_BLOCK_BYTES: Final = 2**20
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Whole rows of one file: its bytes from `begin` up to `end`, the first on line `line`.

    `number` is its place among all ranges. Where the quotes of a CSV file do not pair up, each
    line is taken for a row (`by_line`): else one missing quote would swallow all that follows.
    """

    number: int
    file: str
    begin: int
    end: int
    line: int
    by_line: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run reads: each file as it was (size, time of its last change), and the ranges."""

    files: tuple[tuple[str, int, int], ...]
    ranges: tuple[Range, ...]

    @property
    def bytes(self) -> int:
        return sum(size for _, size, _ in self.files)

    def told(self) -> dict[str, Any]:
        return {
            "files": [list(one) for one in self.files],
            "ranges": list(map(asdict, self.ranges)),
        }

    @staticmethod
    def of(said: Mapping[str, Any]) -> "Plan":
        """The inverse of `told`; refuses files that are not what they were.

        Raises JobError SOURCE_CHANGED.
        """
        plan = Plan.known(said)
        plan.check()
        return plan

    @staticmethod
    def known(said: Mapping[str, Any]) -> "Plan":
        """The same without a look at the files, which may be gone once all was applied."""
        return Plan(
            files=tuple((name, size, changed) for name, size, changed in said.get("files", ())),
            ranges=tuple(Range(**one) for one in said.get("ranges", ())),
        )

    def check(self) -> None:
        """Raise JobError SOURCE_CHANGED unless every file is what it was."""
        for name, size, changed in self.files:
            if _facts(Path(name)) != (size, changed):
                raise file_changed(name)


def plan(parameters: ImportParameters, range_bytes: int = RANGE_BYTES) -> Plan:
    """Look at every file of the source. Raises JobError NO_SOURCE."""
    files: list[tuple[str, int, int]] = []
    ranges: list[Range] = []
    for path, _ in files_of(parameters):
        size, changed = _facts(path) or (0, 0)
        files.append((str(path), size, changed))
        for cut in _cuts(path, size, parameters, range_bytes):
            begin, end, line, by_line = cut
            number = len(ranges)
            ranges.append(
                Range(
                    number=number, file=str(path), begin=begin, end=end, line=line, by_line=by_line
                )
            )
    return Plan(files=tuple(files), ranges=tuple(ranges))


def files_of(parameters: ImportParameters) -> list[tuple[Path, int]]:
    """The files of the source by name, each with its size in bytes. Raises JobError NO_SOURCE."""
    found = sorted(_files(parameters.source))
    if not found:
        raise JobError(
            "NO_SOURCE",
            f"There is no file to read at {parameters.source}.",
            "Name a file, a folder with files, or a pattern such as /data/assets-*.csv.",
        )
    return [(path, (_facts(path) or (0, 0))[0]) for path in found]


Cut = tuple[int, int, int, bool]


def _files(source: str) -> Iterator[Path]:
    """Hidden files and those of a writer at work ("_SUCCESS", "_temporary/…") are none."""
    path = Path(source)
    found: Iterator[Path]
    if path.is_dir():
        found = path.rglob("*")
    elif path.is_file():
        found = iter([path])
    else:
        found = map(Path, glob.iglob(source, recursive=True))  # noqa: PTH207 - an absolute pattern
    for one in found:
        inside = one.relative_to(path).parts if path.is_dir() else one.parts[-1:]
        if one.is_file() and (one == path or not any(part[0] in "._" for part in inside)):
            yield one


def _facts(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_size, facts.st_mtime_ns


def _cuts(path: Path, size: int, parameters: ImportParameters, range_bytes: int) -> Iterator[Cut]:
    quote = parameters.quote.encode() if parameters.format is Format.CSV else b""
    with path.open("rb") as file:
        begin = len(_BOM) if file.read(len(_BOM)) == _BOM else 0
        by_line = bool(quote) and not _pairs_up(file, begin, quote)
        marks = _marks(file, begin, size, b"" if by_line else quote, range_bytes)
        first, line = begin, 1
        for place, next_line in [*marks, (size, 0)]:
            if place > first:
                yield first, place, line, by_line
            first, line = place, next_line


def _pairs_up(file: BinaryIO, begin: int, quote: bytes) -> bool:
    file.seek(begin)
    return sum(block.count(quote) for block in _blocks(file)) % 2 == 0


def _marks(
    file: BinaryIO, begin: int, size: int, quote: bytes, range_bytes: int
) -> Sequence[tuple[int, int]]:
    """Where the next ranges begin, each with its line: behind a line's end outside of quotes."""
    marks: list[tuple[int, int]] = []
    file.seek(begin)
    place, line, is_open, wanted = begin, 1, False, begin + range_bytes
    for block in _blocks(file):
        here = 0
        while wanted < place + len(block):
            cut = _line_end(block, max(wanted - place, here), here, quote, is_open=is_open)
            if cut is None:
                break
            marks.append((place + cut, line + block.count(b"\n", 0, cut)))
            wanted = place + cut + range_bytes
        is_open ^= bool(quote) and block.count(quote) % 2 == 1
        place, line = place + len(block), line + block.count(b"\n")
    return [mark for mark in marks if mark[0] < size]


def _line_end(block: bytes, wanted: int, begin: int, quote: bytes, *, is_open: bool) -> int | None:
    """Behind the first line's end at or after `wanted` that is outside of quotes."""
    is_inside, seen = is_open, 0
    cut = block.find(b"\n", wanted) + 1
    while cut:
        is_inside ^= bool(quote) and block.count(quote, seen, cut) % 2 == 1
        if not is_inside and cut > begin:
            return cut
        seen, cut = cut, block.find(b"\n", cut) + 1
    return None


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block
