"""The way from a record's bytes to a Document, or to the Flaw that names what is wrong."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from integration.envelope.compression import looks_like_base64, unpack
from integration.envelope.document import DEFAULT, JSON, XML, Bare, Document, Enclosed, Limits
from integration.envelope.fields import Headers, addressed, addressed_by_headers
from integration.envelope.flaw import EMPTY_BODY, Flaw, FlawCode, too_large
from integration.envelope.json_flaw import not_utf8
from integration.envelope.json_text import parse_json
from integration.envelope.xml_text import parse_xml

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_BLANKS: Final = " \t\r\n"
_JSON_TYPES: Final = frozenset({dict, list, str, int, Decimal, bool})
_COMPRESSED: Final = frozenset({"1", "true"})
_PLAIN: Final = frozenset({"", "0", "false", "none"})


def read(value: bytes, headers: Headers | None = None, limits: Limits = DEFAULT) -> Document | Flaw:
    """Return what a record's value and headers come to. Raises nothing for any bytes."""
    parsed = parse(value, headers, limits)
    return Bare(parsed, value) if isinstance(parsed, dict) else parsed


def parse(
    value: bytes, headers: Headers | None = None, limits: Limits = DEFAULT
) -> Document | Flaw | dict[str, Any]:
    """Return what `read` does, except for a JSON object with neither envelope nor headers.

    Most messages are that, and all there is to them is their body: it is returned as it is.
    """
    if len(value) > limits.max_bytes:
        return too_large("The record", limits.max_bytes)
    body = _parsed(value, limits.max_depth)
    if isinstance(body, dict):
        if "payload" in body and ("INTERFACE" in body or "interfacetype" in body):
            return _opened(value, body, headers, limits)
        if not headers:
            return body
    elif isinstance(body, Flaw):
        return body
    fields = addressed_by_headers(headers or ())
    if isinstance(fields, Flaw):
        return fields
    return _document(fields, body, value, wrapped=False)


def body_of(source: bytes | str, limits: Limits = DEFAULT) -> object:
    """Return what is in a payload's own text, without envelope or headers, or a Flaw."""
    if len(source) > limits.max_bytes:
        return too_large("The payload", limits.max_bytes)
    if isinstance(source, str):
        return _parsed_text(source, limits.max_depth)
    return _parsed(source, limits.max_depth)


def _parsed(source: bytes, max_depth: int) -> object:
    """Return the body in these bytes, or a Flaw."""
    if source[:1] != b"{":
        start = source.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1]
        if not start:
            return EMPTY_BODY
        if start == b"<":
            return parse_xml(source, max_depth)
    try:
        text = source.decode()
    except UnicodeDecodeError as failure:
        return not_utf8(source, failure)
    body = parse_json(text, max_depth)
    return EMPTY_BODY if body is None else body


def _opened(
    record: bytes, envelope: Mapping[str, object], headers: Headers | None, limits: Limits
) -> Document | Flaw:
    fields = addressed(envelope, headers)
    if isinstance(fields, Flaw):
        return fields
    source, body = _payload(record, envelope, limits)
    if isinstance(body, Flaw):
        return body.of(fields[0], fields[-1])
    return _document(fields, body, source, wrapped=True)


def _payload(
    record: bytes, envelope: Mapping[str, object], limits: Limits
) -> tuple[str | bytes | Enclosed, object]:
    """Return the payload's own text and what is in it, or a Flaw in its place."""
    payload = envelope["payload"]
    if payload is None:
        return record, EMPTY_BODY.in_payload()
    if not isinstance(payload, str):
        return Enclosed(record), payload
    source = _unpacked(payload, envelope.get("compressed"), limits)
    if isinstance(source, Flaw):
        return record, source
    if isinstance(source, str):
        body = _parsed_text(source, limits.max_depth)
    else:
        body = _parsed(source, limits.max_depth)
    return source, body.in_payload() if isinstance(body, Flaw) else body


def _unpacked(payload: str, mark: object, limits: Limits) -> str | bytes | Flaw:
    """Return the payload as it was before Base64 and compression, if it went through them."""
    word = str(mark).lower() if isinstance(mark, str | int | None) else "?"
    if word in _COMPRESSED:
        return unpack(payload, limits)
    if word in _PLAIN:
        return payload
    return Flaw(FlawCode.BAD_FIELD, 'The envelope\'s "compressed" is neither "1" nor left out.')


def _parsed_text(text: str, max_depth: int) -> object:
    start = text.removeprefix("\ufeff").lstrip(_BLANKS)[:1]
    if not start:
        return EMPTY_BODY
    if start == "<":
        return parse_xml(text.encode(), max_depth, is_utf8=True)
    body = parse_json(text, max_depth)
    if isinstance(body, Flaw) and looks_like_base64(text):
        message = 'The text is Base64, but "compressed" is not set.'
        return Flaw(FlawCode.UNMARKED_BASE64, message)
    return EMPTY_BODY if body is None else body


def _document(
    fields: list[str | None], body: object, source: bytes | str | Enclosed, *, wrapped: bool
) -> Document:
    interface, sender, user, destination, message_id = fields
    mimetype = JSON if type(body) in _JSON_TYPES else XML
    return Document(
        interface, sender, user, destination, message_id, mimetype, wrapped, body, source
    )
