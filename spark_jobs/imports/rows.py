"""Values between files and documents: ranges that tasks read, and the rows they read there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from spark_jobs.errors import JobError

# Beyond this a row is not taken apart; its beginning and its place are kept.
LARGEST_ROW_CHARACTERS: Final = 2**20
# A named tuple's own constructor is a Python function: several times the time, for every row.
new_tuple: Final = tuple.__new__


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Whole rows of one file, from `begin` up to `end`, the first on line `line`.

    `begin` and `end` are bytes; of Parquet they are row groups and `line` is a row, both counted
    as the file counts them. `number` is its place among all ranges. Where the quotes of a CSV file
    do not pair up, each line is taken for a row (`by_line`): else one missing quote would swallow
    all that follows.
    """

    number: int
    file: str
    begin: int
    end: int
    line: int
    by_line: bool = False


class Flaw(NamedTuple):
    """The flaw of a row: a stable code, and a sentence for the person who mends it."""

    code: str
    text: str


NUL: Final = Flaw(
    "NUL_CHARACTER", "It has a NUL character, which neither JSON documents nor the database take."
)


class Row(NamedTuple):
    """One row, told by its `text`, by its `values` in the order of its source's columns, or both.

    Values are texts; of Parquet they are what JSON has: see `arrow_values`.
    """

    line: int
    text: str
    values: Sequence[Any] = ()
    flaw: Flaw | None = None

    @property
    def raw(self) -> bytes:
        """The bytes it had in its file, if it was UTF-8 or could not be read as what it should."""
        return self.text.encode("utf-8", "surrogateescape")


def too_long(line: int, beginning: str, characters: int) -> Row:
    """A row of which the beginning alone is kept."""
    text_kept = beginning[:LARGEST_ROW_CHARACTERS]
    text = f"The row has {characters:,} characters; {len(text_kept):,} are kept here."
    return Row(line, text_kept, (), Flaw("ROW_TOO_LONG", text))


def place_of(name: str, names: Sequence[str], source: str) -> int:
    """Find a column among those of a source. Raises JobError UNKNOWN_COLUMN, COLUMN_TWICE."""
    if names.count(name) > 1:
        raise JobError(
            "COLUMN_TWICE",
            f"{source} has two columns named {name!r}, and one of them is mapped.",
            "Give the columns names of their own.",
        )
    if name not in names:
        raise JobError(
            "UNKNOWN_COLUMN",
            f"{source} has no column {name!r}; it has {', '.join(names)[:500]}.",
            "Correct the map of the columns, or import files with other columns apart.",
        )
    return names.index(name)
