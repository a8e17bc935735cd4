"""The contents of files: each message as a record, and records put together. Pure."""

import csv
import io
from collections.abc import Sequence
from typing import Final

from lxml import etree

from integration.documents.structures import is_xml
from integration.endpoint_types.file.properties import FileProperties
from integration.endpoints.codes import EndpointCode
from integration.endpoints.port import NotDeliveredError, OutboundMessage, Refused
from integration.endpoints.templates import Fields, Template, as_text

SEPARATORS: Final = {"tab": "\t"}


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
            # The payload's own text, so that no number changes.
            return message.body.strip()
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

    def holds(self, content: bytes, record: bytes) -> bool:
        """Return whether a file that was written before has this record among its own."""
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


def _unfit(text: str) -> NotDeliveredError:
    """A message that cannot be written in the format of the endpoint."""
    return NotDeliveredError(Refused(code=EndpointCode.FILE_FORMAT, text=text))
