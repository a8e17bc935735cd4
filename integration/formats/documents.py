"""The decoded message as handlers get it: its body, and JSON text that is made when asked for."""

from integration.documents.exact_json import encode
from integration.envelope import DEFAULT, JSON, Bare, Document, Flaw, body_of
from integration.envelope.fields import Headers, addressed_by_headers
from integration.envelope.flaw import too_large
from integration.formats.schema import Schema, SchemaKind
from integration.formats.wire import HEADER_BYTES


class Decoded(Document):
    """A message out of a registry format: no text of it ever came."""

    __slots__ = ()

    @property
    def payload(self) -> str:
        """The document as JSON text."""
        return encode(self.body)


class DecodedBare(Bare):
    """One without headers: all there is to it is its body."""

    __slots__ = ()

    @property
    def payload(self) -> str:
        """The document as JSON text."""
        return encode(self.body)


def decoded(schema: Schema, record: bytes, headers: Headers | None) -> Decoded | Flaw:
    """Return what a record of this schema says; headers tell what an envelope would."""
    if len(record) > DEFAULT.max_bytes:
        return too_large("The record", DEFAULT.max_bytes)
    fields = addressed_by_headers(headers or ())
    if isinstance(fields, Flaw):
        return fields
    interface, sender, user, destination, message_id = fields
    body = schema.decode(record)
    if isinstance(body, Flaw):
        return body.of(interface, message_id)
    return Decoded(interface, sender, user, destination, message_id, JSON, False, body, record)


def body_to_correct(schema: Schema, record: bytes) -> object | Flaw:
    """Return what a record says, to be corrected and written by its schema again.

    JSON that its own schema refuses is a document, too: that is what is to be corrected.
    """
    if len(record) > DEFAULT.max_bytes:
        return too_large("The record", DEFAULT.max_bytes)
    body = schema.decode(record)
    if isinstance(body, Flaw) and schema.kind is SchemaKind.JSON:
        return body_of(record[HEADER_BYTES:])
    return body
