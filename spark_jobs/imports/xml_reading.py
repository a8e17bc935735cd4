"""Reads the records of an XML file as a stream: no entities, no document types, bounded.

A record is an element of the name that the import was given, wherever it stands; one inside another
is part of that. A file is one range, because XML cannot be cut. Where its grammar breaks, what came
before is read, and what follows is one row.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Final

from lxml import etree

from integration.envelope.flaw import FlawCode
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import LARGEST_ROW_CHARACTERS, Flaw, Row, too_long
from spark_jobs.imports.xml_parsing import Break, events_of, fed, offset_of, parser_of
from spark_jobs.storage import DISK, Storage

_CHUNK_BYTES: Final = 2**16
# So much of a start tag may lie before the portion in which it ends.
_TAG_BYTES: Final = 2**12
_TEXT: Final = ""
Tree = dict[str, "Tree | int"]
"""Names of members and what is below them; at last the place of a value, under "" its text."""


class Records:
    """The records of one file. `looked_at` are the bytes that have been read so far."""

    def __init__(self, file: str, parameters: ImportParameters, storage: Storage = DISK) -> None:
        self.looked_at = 0
        self.root = ""
        # The names of values in the records so far, for whoever maps them.
        self.paths: dict[str, None] = {}
        self._opening, self._name = partial(storage.open, file), parameters.record
        names = names_of(parameters)
        self._tree, self._width = _tree(names), len(names)
        self._top: etree._Element | None = None
        self._open: etree._Element | None = None
        self._depth = self._began_at = 0
        self._beginning = ""

    def rows(self, *, collect: bool = False, most_bytes: int | None = None) -> Iterator[Row]:
        """Each record with its line, its text, and the values of the map's columns.

        With `most_bytes` those that begin in so much of the file, whether there are any or not.
        """
        parser = parser_of(self._opening, self._name)
        with self._opening() as opened:
            while True:
                chunk = opened.read(_CHUNK_BYTES)
                broken = fed(parser, chunk)
                for event, element in events_of(parser):
                    if self._top is None and (refused := self._begin(element)):
                        yield refused
                        return
                    record = self._step(event, element)
                    if record is not None:
                        yield self._row(record, collect=collect)
                self.looked_at += len(chunk)
                if broken is not None:
                    yield self._rest(broken)
                if broken is not None or not chunk:
                    return
                if most_bytes is not None and self._is_enough(most_bytes):
                    yield from self._too_large()
                    return
                self._forget()

    def _is_enough(self, most_bytes: int) -> bool:
        """Return whether so much is read, and no record is open that may yet be a row."""
        return self.looked_at >= most_bytes and (self._open is None or bool(self._beginning))

    def _too_large(self) -> Iterator[Row]:
        """The record that is open, as far as it was read: it is too large already."""
        if self._open is not None:
            size = self.looked_at - self._began_at
            yield too_long(_line(self._open), self._beginning, size)

    def _begin(self, top: etree._Element) -> Row | None:
        self._top, self.root = top, _local(top)
        if top.getroottree().docinfo.internalDTD is None:
            return None
        text = "The file declares a document type (DOCTYPE), and is not read."
        return Row(1, self._text_from(0), (), Flaw(FlawCode.XML_DOCTYPE, text))

    def _step(self, event: str, element: etree._Element) -> etree._Element | None:
        """The record that ends here, if one does."""
        if _local(element) != self._name:
            return None
        if event == "start":
            self._depth += 1
            if self._depth == 1:
                self._open, self._began_at, self._beginning = element, self.looked_at, ""
            return None
        self._depth -= 1
        if self._depth:
            return None
        self._open = None
        return element

    def _row(self, record: etree._Element, *, collect: bool) -> Row:
        if collect:
            self.paths |= dict.fromkeys(_paths(record, ""))
        line = _line(record)
        if self._beginning:
            return too_long(line, self._beginning, self.looked_at - self._began_at)
        text = etree.tostring(record, encoding="unicode", with_tail=False)
        if len(text) > LARGEST_ROW_CHARACTERS:
            return too_long(line, text, len(text))
        if not self._width:
            return Row(line, text)
        values: list[str | None] = [None] * self._width
        flaw = _collect(record, self._tree, values)
        return Row(line, text, [value or "" for value in values], flaw)

    def _forget(self) -> None:
        """Take away what was read, but what is still being built: it hangs on the last children.

        Of a record that grows too large its beginning is kept, and then no more of it.
        """
        grown = self.looked_at - self._began_at
        if self._open is not None and not self._beginning and grown > 2 * LARGEST_ROW_CHARACTERS:
            whole = etree.tostring(self._open, encoding="unicode", with_tail=False)
            self._beginning = whole[:LARGEST_ROW_CHARACTERS] or " "
        element = self._top
        while element is not None and (element is not self._open or self._beginning):
            del element[:-1]
            element = element[-1] if len(element) else None

    def _rest(self, broken: Break) -> Row:
        """Return what is not read, from the record on in which the grammar breaks."""
        line, column, name, is_end = broken
        where = f"line {line:,}, column {column:,}"
        if is_end:
            flaw = Flaw(FlawCode.TRUNCATED_XML, f"The file stops short at {where}.")
        else:
            why = f"The XML breaks at {where} ({name}): nothing behind it is read."
            flaw = Flaw(FlawCode.BAD_XML, why)
        at = offset_of(self._opening, line, column)
        begin = self._record_before(at) if self._depth else at
        with self._opening() as opened:
            opened.seek(begin)
            line -= opened.read(max(at - begin, 0)).count(b"\n")
        return Row(line, self._text_from(begin), (), flaw)

    def _record_before(self, at: int) -> int:
        """Return where the record begins that was being read: the last one of its portion."""
        first = max(0, self._began_at - _TAG_BYTES)
        with self._opening() as opened:
            opened.seek(first)
            begun = opened.read(min(at, self._began_at + _CHUNK_BYTES) - first)
        tags = re.compile(rb"<(?:[\w.\-]+:)?" + re.escape(self._name.encode()) + rb"[\s/>]")
        starts = [tag.start() for tag in tags.finditer(begun)]
        return first + starts[-1] if starts else at

    def _text_from(self, begin: int) -> str:
        with self._opening() as opened:
            opened.seek(begin)
            return opened.read(LARGEST_ROW_CHARACTERS).decode("utf-8", "surrogateescape")


def names_of(parameters: ImportParameters) -> list[str]:
    """The names of the values that each record has: those of the map, in its order."""
    return list(dict.fromkeys(column.source for column in parameters.columns))


def _line(element: etree._Element) -> int:
    line: Any = element.sourceline  # of no type in the stubs
    return int(line or 0)


def _tree(paths: Sequence[str]) -> Tree:
    root: Tree = {}
    for place, path in enumerate(paths):
        tree = root
        *outer, last = path.split("/")
        for name in outer if last.startswith("@") else (*outer, last):
            below = tree.setdefault(name, {})
            assert isinstance(below, dict)  # noqa: S101 - a place stands under "" or "@…" alone
            tree = below
        tree[last if last.startswith("@") else _TEXT] = place
    return root


def _collect(element: etree._Element, tree: Tree, values: list[str | None]) -> Flaw | None:
    """Put the values below an element in their places; the first thing that is wrong with them."""
    flaw: Flaw | None = None
    for child in element:
        below = tree.get(_local(child))
        if isinstance(below, dict):
            flaw = _collect(child, below, values) or flaw
    for name, place in tree.items():
        if isinstance(place, int):
            flaw = _put(element, name, values, place) or flaw
    return flaw


def _put(element: etree._Element, name: str, values: list[str | None], place: int) -> Flaw | None:
    if name != _TEXT:
        value = element.get(name[1:])
    elif len(element):
        return Flaw("WRONG_KIND", f"{_local(element)} has elements in it, and is no text.")
    else:
        value = (element.text or "").strip()
    if value is not None and values[place] is not None:
        return Flaw("VALUE_TWICE", f"The record has {_local(element)} more than once.")
    values[place] = value
    return None


def _paths(element: etree._Element, before: str) -> Iterator[str]:
    """The names that a map may name, of one record."""
    names = map(str, element.attrib)
    yield from (f"{before}@{name}" for name in names if "{" not in name)
    for child in element:
        path = f"{before}{_local(child)}"
        yield from _paths(child, f"{path}/")
        if not len(child):
            yield path


def _local(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]
