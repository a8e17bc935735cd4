"""What files hold: each message as a record, and records put together. Pure."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

from lxml import etree

from integration.endpoint_types.file.properties import FileProperties
from integration.endpoints.port import OutboundMessage
from integration.endpoints.templates import Fields, Template, as_text

SEPARATORS: Final = {"tab": "\t"}


class FormatError(Exception):
    """A message cannot be written in the format of the endpoint; says why."""


class Format:
    """Writes messages as the properties of an endpoint say."""

    def __init__(self, properties: FileProperties) -> None:
        self._properties = properties
        self._columns = {h: Template(text) for h, text in properties.columns.items()}
        self._separator = SEPARATORS.get(properties.separator, properties.separator)

    def record(self, message: OutboundMessage) -> bytes:
        """What a message is in a file. Raises FormatError, FieldMissingError."""
        fields = Fields(message)
        match self._properties.format:
            case "json":
                return _json(message, fields)
            case "xml":
                return _xml(fields)
            case "flat":
                return self._line(_texts(self._columns, fields))
            case _:
                return message.body

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

    def holds(self, content: bytes, record: bytes) -> bool:
        """Whether a file that was written before has this record among its own."""
        properties = self._properties
        if properties.at_once == 1:
            return content == self.whole([record])
        if properties.format == "flat":
            return record in content.splitlines(keepends=True)
        return record.strip() in {part.strip(b"\n,") for part in _parts(content, record)}

    def _line(self, values: Sequence[str]) -> bytes:
        out = io.StringIO()
        csv.writer(out, delimiter=self._separator, lineterminator="\n").writerow(values)
        return out.getvalue().encode()


def _parts(content: bytes, record: bytes) -> list[bytes]:
    """The places of a file where a record may stand: from one line's begin to another's end."""
    lines, size = content.split(b"\n"), record.strip().count(b"\n") + 1
    return [b"\n".join(lines[at : at + size]) for at in range(len(lines))]


def _texts(columns: Mapping[str, Template], fields: Fields) -> list[str]:
    if fields.flaw is not None:
        raise FormatError(fields.flaw.message)
    return [as_text(template.value(fields)) for template in columns.values()]


def _json(message: OutboundMessage, fields: Fields) -> bytes:
    """The payload's own text, so that no number changes."""
    if fields.flaw is not None:
        raise FormatError(fields.flaw.message)
    if isinstance(fields.body, etree._Element):  # noqa: SLF001 - lxml's only name for it
        raise FormatError("The payload is XML, and the endpoint writes JSON.")
    return message.body.strip()


def _xml(fields: Fields) -> bytes:
    """The root element alone, in UTF-8, without what stands before it."""
    if fields.flaw is not None:
        raise FormatError(fields.flaw.message)
    if not isinstance(fields.body, etree._Element):  # noqa: SLF001 - lxml's only name for it
        raise FormatError("The payload is JSON, and the endpoint writes XML.")
    return etree.tostring(fields.body, encoding="utf-8", with_tail=False, xml_declaration=False)
