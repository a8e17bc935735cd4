"""Reads the rows of one range of text: each with its line, its own text, and values or a flaw.

It is read as a stream: however large a range or a line is, little more than one row is held.
"""

import csv
import io
from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import BinaryIO, Final, TextIO

from spark_jobs.errors import JobError, changed
from spark_jobs.imports.parameters import Format, ImportParameters
from spark_jobs.imports.rows import (
    LARGEST_ROW_CHARACTERS,
    NUL,
    Flaw,
    Range,
    Row,
    new_tuple,
    too_long,
)
from spark_jobs.storage import DISK, Storage

_BUFFER_BYTES: Final = 2**18
# A line, or the lines of one row, with their ends.
_MOST: Final = LARGEST_ROW_CHARACTERS + 2


class _TooMuch(Exception):  # noqa: N818 - not an error: the lines are not taken for one row
    """The row being read is larger than any that is taken apart."""


class _Window(io.RawIOBase):
    """The bytes of a range, as a file of their own."""

    def __init__(self, opened: BinaryIO, part: Range) -> None:
        super().__init__()
        self._opened, self._file = opened, part.file
        self._left = part.end - part.begin
        opened.seek(part.begin)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override] # always one
        data = self._opened.read(min(len(buffer), self._left))
        if self._left and not data:
            raise changed(self._file)
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)


def header_of(file: str, parameters: ImportParameters, storage: Storage = DISK) -> list[str]:
    """The names in the first row of a CSV file; numbers from 1 where it has no header."""
    with storage.open(file) as opened:
        first = opened.read(LARGEST_ROW_CHARACTERS)
    text = first.decode(parameters.encoding, "surrogateescape").removeprefix("\ufeff")
    row = next(_csv(io.StringIO(text, newline="\n"), 1, parameters), None)
    if row is None:
        raise _no_header(file, "it is empty")
    if row.flaw is not None:
        raise _no_header(file, row.flaw.text)
    if "\n" in row.text or "\r" in row.text:
        raise _no_header(file, "it has more than one line, or lines that end with CR alone")
    names = row.values
    return list(names) if parameters.has_header else [str(n) for n in range(1, len(names) + 1)]


def rows(
    part: Range, parameters: ImportParameters, width: int, storage: Storage = DISK
) -> Iterator[Row]:
    """The rows of a range, without the header and without empty lines.

    Raises JobError SOURCE_CHANGED where the file ends too early.
    """
    with storage.open(part.file) as opened:
        buffered = io.BufferedReader(_Window(opened, part), _BUFFER_BYTES)
        text = io.TextIOWrapper(buffered, parameters.encoding, "surrogateescape", newline="\n")
        if parameters.format is Format.JSON_LINES:
            yield from _json_lines(text, part.line)
        else:
            yield from _table(text, part, parameters, width)


def _table(text: TextIO, part: Range, parameters: ImportParameters, width: int) -> Iterator[Row]:
    read = _csv_lines if part.by_line else _csv
    records = read(text, part.line, parameters)
    if part.line == 1 and parameters.has_header:
        next(records, None)
    for row in records:
        if row.flaw is None and len(row.values) != width:
            why = f"It has {len(row.values)} columns, and the file has {width}."
            yield row._replace(values=(), flaw=Flaw("COLUMN_COUNT", why))
        else:
            yield row


def _reader(lines: Iterable[str], parameters: ImportParameters) -> Iterator[list[str]]:
    # Of the process: no field is larger than a row may be.
    csv.field_size_limit(2 * _MOST)
    return csv.reader(
        lines, delimiter=parameters.delimiter, quotechar=parameters.quote, strict=True
    )


def _json_lines(text: TextIO, line: int) -> Iterator[Row]:
    for number, piece in enumerate(_pieces(text), line):
        if len(piece) > _MOST:
            yield too_long(number, piece, len(piece) + _passed(text)[0])
        elif piece and not piece.isspace():
            yield _checked(Row(number, piece.rstrip("\r\n")))


def _csv(text: TextIO, line: int, parameters: ImportParameters) -> Iterator[Row]:
    """Rows may have line ends inside quotes; what each was made of is kept beside the reader.

    A line without a quote is a row by itself, and is taken apart without the reader.
    """
    delimiter, quote = parameters.delimiter, parameters.quote
    ahead: list[str] = []
    eaten: list[str] = []
    while True:
        reader = _reader(_fed(text, ahead, eaten), parameters)
        try:
            for piece in _pieces(text):
                plain = piece.rstrip("\r\n")
                if quote not in plain and "\r" not in plain and len(piece) <= _MOST:
                    if plain:
                        row = new_tuple(Row, (line, plain, plain.split(delimiter), None))
                        yield row if _is_plain(plain) else _checked(row)
                    line += 1
                else:
                    ahead.append(piece)
                    yield from _read(reader, line, eaten)
                    line += len(eaten)
                    eaten.clear()
        except _TooMuch:
            line = yield from _untaken(text, line, eaten, quote)
            eaten.clear()
        else:
            return


def _fed(text: TextIO, ahead: list[str], eaten: list[str]) -> Iterator[str]:
    """The line that was read ahead, then those behind it for as long as the reader asks."""
    size = 0
    while piece := ahead.pop() if ahead else text.readline(_MOST + 1):
        size = size + len(piece) if eaten else len(piece)
        eaten.append(piece)
        if size > _MOST:
            raise _TooMuch
        yield piece


def _read(reader: Iterator[list[str]], line: int, eaten: Sequence[str]) -> Iterator[Row]:
    """The next row, or its lines where it is none; `eaten` holds the lines that it was read of."""
    values: Sequence[str] = ()
    flaw = None
    try:
        values = next(reader, ())
    except csv.Error as e:
        flaw = Flaw("BAD_CSV", f"It is no row of CSV: {e}.")
    row = Row(line, _whole(eaten), values, flaw)
    if len(eaten) > 1 and (flaw or len(row.text) > LARGEST_ROW_CHARACTERS):
        yield from (_torn(line, number, piece) for number, piece in enumerate(eaten, line))
    elif values or flaw:
        yield _checked(row)


def _untaken(
    text: TextIO, first: int, eaten: Sequence[str], quote: str
) -> Generator[Row, None, int]:
    """The lines of what is too large for a row: each is kept, none is believed.

    It ends where the quotes pair up, as where files are cut; returns the number of the line behind.
    """
    number, is_inside = first, False
    for piece in chain(eaten, _pieces(text)):
        length, quotes = (0, 0) if piece.endswith("\n") else _passed(text, quote)
        is_inside ^= (piece.count(quote) + quotes) % 2 == 1
        if len(piece) + length > _MOST:
            yield too_long(number, piece, len(piece) + length)
        elif piece.rstrip("\r\n"):
            yield _torn(first, number, piece)
        number += 1
        if number >= first + len(eaten) and not is_inside:
            break
    return number


def _torn(first: int, number: int, line: str) -> Row:
    text = f"The row that begins on line {first:,} cannot be taken apart: a quote is missing, or "
    flaw = Flaw("BAD_CSV", f"{text}one too many.")
    return _checked(Row(number, line.rstrip("\r\n"), (), flaw))


def _csv_lines(text: TextIO, first: int, parameters: ImportParameters) -> Iterator[Row]:
    for number, piece in enumerate(_pieces(text), first):
        line = piece.rstrip("\r\n")
        if len(piece) > _MOST:
            yield too_long(number, piece, len(piece) + _passed(text)[0])
        elif line:
            try:
                row = Row(number, line, next(_reader([line], parameters), []))
            except csv.Error as e:
                why = f"It is no row of CSV: {e}. A quote is missing in this file."
                row = Row(number, line, (), Flaw("BAD_CSV", why))
            yield _checked(row)


def _pieces(text: TextIO) -> Iterator[str]:
    """The lines with their ends; of one that is far too long the beginning, `_passed` the rest."""
    return iter(partial(text.readline, _MOST + 1), "")


def _passed(text: TextIO, quote: str = '"') -> tuple[int, int]:
    """Read on to the line's end: how many characters these are, and how many quotes."""
    characters = quotes = 0
    for piece in _pieces(text):
        characters, quotes = characters + len(piece), quotes + piece.count(quote)
        if piece.endswith("\n"):
            break
    return characters, quotes


def _whole(eaten: Sequence[str]) -> str:
    return (eaten[0] if len(eaten) == 1 else "".join(eaten)).rstrip("\r\n")


def _is_plain(text: str) -> bool:
    """Return whether `_checked` would find nothing, as in most rows."""
    return text.isascii() and "\0" not in text and len(text) <= LARGEST_ROW_CHARACTERS


def _checked(row: Row) -> Row:
    """A row with bytes that are no text of this encoding, or far too long."""
    if len(row.text) > LARGEST_ROW_CHARACTERS:
        return too_long(row.line, row.text, len(row.text))
    if "\0" in row.text:
        return Row(row.line, row.text, (), NUL)
    if not row.text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in row.text):
        text = "It has bytes that are no text in the encoding of the run."
        return Row(row.line, row.text, (), Flaw("BAD_ENCODING", text))
    return row


def _no_header(file: str, why: str) -> JobError:
    return JobError(
        "NO_HEADER", f"The first row of {file} cannot be read: {why}.", "Look at the file."
    )
