"""The contents of files: each message as a record, and records put together. Pure."""

import codecs
import csv
import io
import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from lxml import etree

from integration.documents.structures import is_xml
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, OutboundMessage, Refused
from integration.endpoints.templates import Fields, Template, as_text

SEPARATORS: Final = {"tab": "\t"}
# One record in columns: its quoted values may hold line ends.
_FLAT: Final = re.compile(rb'(?:[^"\n]++|"[^"]*+")*\n')
# To look at the lines of a file once costs as much as to search it for some ten records.
_FEW: Final = 10
_MOST_PIECES: Final = 64
_PART_BYTES: Final = 2**16
# Stands in for a record, to learn what a file has around its records.
_ANY: Final = b"\0"


class Format:
    """Writes messages as the properties of an endpoint say."""

    def __init__(self, properties: FileProperties) -> None:
        self._properties = properties
        self._columns = {h: Template(text) for h, text in properties.columns.items()}
        self._separator = SEPARATORS.get(properties.separator, properties.separator)

    def record(self, message: OutboundMessage) -> bytes:
        """Return a message as it is in a file. Raises NotDeliveredError, FieldMissingError."""
        form, fields = self._properties.format, Fields(message)
        if form == "raw":
            return message.body
        if fields.flaw is not None:
            raise _unfit(fields.flaw.message)
        if form == "flat":
            return self._line([as_text(column.value(fields)) for column in self._columns.values()])
        if is_xml(fields.body) != (form == "xml"):
            payload, written = ("JSON", "XML") if form == "xml" else ("XML", "JSON")
            raise _unfit(f"The payload is {payload}, and the endpoint writes {written}.")
        if form == "json":
            # The payload's own text, so that no number changes. Its byte order mark is not JSON.
            return message.body.removeprefix(codecs.BOM_UTF8).strip()
        # The root element alone, in UTF-8, without what stands before it.
        return etree.tostring(fields.body, encoding="utf-8", with_tail=False, xml_declaration=False)

    def whole(self, records: Sequence[bytes]) -> bytes:
        """A file of these records, at least one."""
        properties = self._properties
        is_many = properties.at_once > 1
        match properties.format:
            case "json":
                return b"[\n" + b",\n".join(records) + b"\n]\n" if is_many else records[0]
            case "xml":
                root = properties.root.encode()
                lines = b"\n".join(records)
                head = b'<?xml version="1.0" encoding="UTF-8"?>\n'
                return (
                    head + b"<" + root + b">\n" + lines + b"\n</" + root + b">\n"
                    if is_many
                    else head + records[0] + b"\n"
                )
            case "flat":
                head = self._line(list(self._columns)) if properties.heading else b""
                return head + b"".join(records)
            case _:
                return b"\n".join(records) + b"\n" if is_many else records[0]

    def held(self, content: bytes, records: Mapping[int, bytes]) -> set[int]:
        """Return which of these a file that was written before has among its own.

        What a file has once counts for one of them. Time grows with the file for each record that
        it has or that only looks like its own, and once more for all others.
        """
        if content == self.whole(list(records.values())):
            return set(records)
        if self._properties.at_once == 1:
            return {at for at, record in records.items() if content == self.whole([record])}
        if self._properties.format == "flat":
            return self._held_lines(content, records)
        # What stands around all records of a file, around each, and between two of them.
        head, _, tail = self.whole([_ANY]).partition(_ANY)
        between = b",\n" if self._properties.format == "json" else b"\n"
        if not (content.startswith(head) and content.endswith(tail)):
            return set()
        inner = between + content[len(head) : len(content) - len(tail)] + between
        held: set[int] = set()
        begins: dict[bytes, int] = {}
        absent = _absent(inner, between, set(records.values()))
        for at, record in records.items():
            if record in absent:
                continue
            # With its borders: nothing that ends elsewhere is found and has to be passed.
            place = inner.find(between + record + between, begins.get(record, 0))
            if place >= 0:
                held.add(at)
            begins[record] = len(inner) if place < 0 else place + len(between) + len(record)
        return held

    def _held_lines(self, content: bytes, records: Mapping[int, bytes]) -> set[int]:
        wanted: dict[bytes, deque[int]] = {}
        for at, record in records.items():
            wanted.setdefault(record, deque()).append(at)
        begin = len(self.whole([b""]))
        if content[:begin] != self.whole([b""]):
            return set()
        held: set[int] = set()
        while (line := _FLAT.match(content, begin)) is not None:
            begin = line.end()
            if found := wanted.get(line[0]):
                held.add(found.popleft())
        return held

    def _line(self, values: Sequence[str]) -> bytes:
        out = io.StringIO()
        csv.writer(out, delimiter=self._separator, lineterminator="\n").writerow(values)
        return out.getvalue().encode()


def _absent(inner: bytes, between: bytes, records: Collection[bytes]) -> set[bytes]:
    """Return those of which a piece is nowhere in the file: of another's, nearly all."""
    if len(records) <= _FEW:
        return set()
    # What may follow the last of so many is no piece.
    pieces = {record: record.split(between, _MOST_PIECES)[:_MOST_PIECES] for record in records}
    missing = {piece for some in pieces.values() for piece in some}
    for part in _parts(inner, between):
        missing.difference_update(part.split(between))
        if not missing:
            break
    return {record for record, some in pieces.items() if not missing.isdisjoint(some)}


def _parts(content: bytes, between: bytes) -> Iterator[bytes]:
    """Whole pieces, some at a time: a list of all would take many times the file's memory."""
    begin = 0
    while begin <= len(content):
        end = content.rfind(between, begin, begin + _PART_BYTES)
        if end < 0:
            end = content.find(between, begin)
        if end < 0:
            end = len(content)
        yield content[begin:end]
        begin = end + len(between)


def _unfit(text: str) -> NotDeliveredError:
    """A message that cannot be written in the format of the endpoint."""
    return NotDeliveredError(Refused(code=EndpointCode.FILE_FORMAT, text=text))
