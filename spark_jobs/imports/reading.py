"""Reads the rows of one range: each with its line, its own bytes, and its values or a flaw."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.planning import Range
from spark_jobs.problems import JobError, changed

# Beyond this a row is not taken apart; its beginning and its place are kept.
LARGEST_ROW_CHARACTERS: Final = 2**20


class Flaw(NamedTuple):
    """What is wrong with a row: a stable code, and a sentence for the person who mends it."""

    code: str
    text: str


class Row(NamedTuple):
    """One row. `values` are a CSV row's texts; JSON lines are told by their `text` alone."""

    line: int
    text: str
    values: Sequence[str] = ()
    flaw: Flaw | None = None

    @property
    def raw(self) -> bytes:
        """The bytes it had in its file, if it was UTF-8 or could not be read as what it should."""
        return self.text.encode("utf-8", "surrogateescape")


def header_of(file: Path, parameters: ImportParameters) -> list[str]:
    """The names in the first row of a CSV file; numbers from 1 where it has no header."""
    with file.open("rb") as opened:
        first = opened.read(LARGEST_ROW_CHARACTERS)
    text = first.decode(parameters.encoding, "surrogateescape").removeprefix("\ufeff")
    row = next(_csv(text, 1, parameters), None)
    if row is None:
        raise _no_header(file, "it is empty")
    if row.flaw is not None:
        raise _no_header(file, row.flaw.text)
    if "\n" in row.text or "\r" in row.text:
        raise _no_header(file, "it has more than one line, or lines that end with CR alone")
    names = row.values
    return list(names) if parameters.has_header else [str(n) for n in range(1, len(names) + 1)]


def rows(part: Range, parameters: ImportParameters, width: int) -> Iterator[Row]:
    """The rows of a range, without the header and without empty lines."""
    with Path(part.file).open("rb") as opened:
        opened.seek(part.begin)
        data = opened.read(part.end - part.begin)
    csv.field_size_limit(max(len(data), LARGEST_ROW_CHARACTERS))
    text = data.decode(parameters.encoding, "surrogateescape")
    if parameters.format is Format.JSON_LINES:
        yield from _json_lines(text, part.line)
        return
    if len(data) != part.end - part.begin:
        raise changed(part.file)
    read = _csv_lines if part.by_line else _csv
    found = read(text, part.line, parameters)
    is_first = part.line == 1 and parameters.has_header
    for row in found:
        if is_first:
            is_first = False
        elif row.flaw is None and len(row.values) != width:
            yield row._replace(flaw=_wrong_width(len(row.values), width))
        else:
            yield row


def _reader(lines: Iterable[str], parameters: ImportParameters) -> Iterator[list[str]]:
    return csv.reader(
        lines, delimiter=parameters.delimiter, quotechar=parameters.quote, strict=True
    )


def _json_lines(text: str, line: int) -> Iterator[Row]:
    for number, one in enumerate(text.split("\n"), line):
        if one and not one.isspace():
            yield _checked(Row(number, one.removesuffix("\r")))


def _csv(text: str, line: int, parameters: ImportParameters) -> Iterator[Row]:
    """Rows may have line ends inside quotes; what each was made of is kept beside the reader."""
    eaten: list[str] = []

    def feed() -> Iterator[str]:
        for one in io.StringIO(text, newline="\n"):
            eaten.append(one)
            yield one

    reader = _reader(feed(), parameters)
    while (row := _next(reader, line, eaten)) is not None:
        if len(eaten) > 1 and (row.flaw or len(row.text) > LARGEST_ROW_CHARACTERS):
            yield from _apart(line, eaten)
        elif row.values or row.flaw:
            yield _checked(row)
        line += len(eaten)
        eaten.clear()


def _next(reader: Iterator[list[str]], line: int, eaten: Sequence[str]) -> Row | None:
    """The next row, None behind the last; `eaten` holds the lines it was read from."""
    try:
        values = next(reader)
    except StopIteration:
        return None
    except csv.Error as e:
        return Row(line, _whole(eaten), (), Flaw("BAD_CSV", f"It is no row of CSV: {e}."))
    return Row(line, _whole(eaten), values)


def _apart(first: int, lines: Sequence[str]) -> Iterator[Row]:
    """The lines between two quotes that do not belong together: each is kept, none is believed."""
    last = first + len(lines) - 1
    text = f"Lines {first:,} to {last:,} cannot be taken apart: a quote is missing or too many."
    for number, one in enumerate(lines, first):
        if one := one.rstrip("\r\n"):
            yield _checked(Row(number, one, (), Flaw("BAD_CSV", text)))


def _csv_lines(text: str, first: int, parameters: ImportParameters) -> Iterator[Row]:
    for number, one in enumerate(text.split("\n"), first):
        line = one.removesuffix("\r")
        if not line:
            continue
        try:
            row = Row(number, line, next(_reader([line], parameters), []))
        except csv.Error as e:
            flaw = Flaw("BAD_CSV", f"It is no row of CSV: {e}. A quote is missing in this file.")
            row = Row(number, line, (), flaw)
        yield _checked(row)


def _whole(eaten: Sequence[str]) -> str:
    return "".join(eaten).rstrip("\r\n")


def _checked(row: Row) -> Row:
    """A row with bytes that are no text of this encoding, or far too long."""
    if len(row.text) > LARGEST_ROW_CHARACTERS:
        kept = row.text[:LARGEST_ROW_CHARACTERS]
        text = f"The row has {len(row.text):,} characters; {len(kept):,} are kept here."
        return Row(row.line, kept, (), Flaw("ROW_TOO_LONG", text))
    if "\0" in row.text:
        text = "It has a NUL character, which neither JSON documents nor the database take."
        return Row(row.line, row.text, (), Flaw("NUL_CHARACTER", text))
    if not row.text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in row.text):
        text = "It has bytes that are no text in the encoding of the run."
        return Row(row.line, row.text, (), Flaw("BAD_ENCODING", text))
    return row


def _wrong_width(found: int, wanted: int) -> Flaw:
    return Flaw("COLUMN_COUNT", f"It has {found} columns, and the file has {wanted}.")


def _no_header(file: Path, why: str) -> JobError:
    return JobError(
        "NO_HEADER", f"The first row of {file} cannot be read: {why}.", "Look at the file."
    )
