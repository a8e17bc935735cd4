"""The count of a message's resends: in `{"retryCount": 2, "message": …}`, or in a header."""

import json
from collections.abc import Sequence
from typing import Final

from integration.envelope.document import DEFAULT
from integration.envelope.flaw import Flaw
from integration.envelope.json_text import member_text, parse_json

Headers = Sequence[tuple[str, bytes | None]]

RETRY_COUNT: Final = "retryCount"
MESSAGE: Final = "message"
MOST: Final = 1_000_000
NAME: Final = RETRY_COUNT.encode()


def unwrap(value: bytes | None) -> tuple[int, bytes] | None:
    """Return the count and what is wrapped, or None for a record that is no such wrapper.

    What was wrapped as a text is that text; all else is what stands there, to the letter.

    >>> unwrap(b'{"retryCount": 2, "message": {"a": 1.10}}')
    (2, b'{"a": 1.10}')
    """
    opened = _opened(value)
    if opened is None:
        return None
    count, message, text = opened
    inner = message if isinstance(message, str) else member_text(text, MESSAGE)
    return count, inner.encode("utf-8", "replace")


def wrap(value: bytes, count: int) -> bytes:
    """Wrap a record, or write another count into one that is wrapped already.

    What cannot stand in JSON, or could not be read there again, is returned as it is.
    """
    opened = _opened(value)
    if opened is not None:
        member = member_text(opened[2], MESSAGE)
    else:
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        is_json = not isinstance(parse_json(text, DEFAULT.max_depth), Flaw)
        member = text if is_json else json.dumps(text, ensure_ascii=False)
    return _made(count, member) or value


def with_message(record: bytes, message: bytes) -> bytes:
    """Return a wrapper with another message in it: its count is kept, and a text stays a text.

    What could not be read there again is returned as it is, as by `wrap`.
    """
    opened = _opened(record)
    try:
        text = message.decode()
    except UnicodeDecodeError:
        return message
    if opened is None:
        return message
    count, before, _ = opened
    is_text = isinstance(before, str) or isinstance(parse_json(text, DEFAULT.max_depth), Flaw)
    member = json.dumps(text, ensure_ascii=False) if is_text else text
    return _made(count, member) or message


def resends(value: bytes | None, headers: Headers | None) -> int:
    """Return how often a record says that it was sent again; of several words the largest."""
    wrapped = unwrap(value)
    return max(0 if wrapped is None else wrapped[0], _in_headers(headers))


def with_resends(headers: Headers | None, count: int) -> list[tuple[str, bytes | None]]:
    """Return the headers with this count in place of any other."""
    rest = [pair for pair in headers or () if pair[0] != RETRY_COUNT]
    return [*rest, (RETRY_COUNT, str(count).encode())]


def _made(count: int, member: str) -> bytes | None:
    """The wrapper around a member as JSON has it; None where that could not be read again."""
    wrapped = f'{{"{RETRY_COUNT}":{count},"{MESSAGE}":{member}}}'.encode()
    return None if _opened(wrapped) is None else wrapped


def _in_headers(headers: Headers | None) -> int:
    said = [value for name, value in headers or () if name == RETRY_COUNT and value]
    return max((_count(int(v)) for v in said if v.isdigit() and len(v) < 12), default=0)


def _count(number: int) -> int:
    return min(number, MOST)


def _opened(value: bytes | None) -> tuple[int, object, str] | None:
    """Return count, message and text of a wrapper; a quick look tells most others apart."""
    if value is None or NAME not in value or len(value) > DEFAULT.max_bytes:
        return None
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return None
    body = parse_json(text, DEFAULT.max_depth)
    if not isinstance(body, dict) or body.keys() != {RETRY_COUNT, MESSAGE}:
        return None
    count = body[RETRY_COUNT]
    if type(count) is not int or count < 0:
        return None
    return _count(count), body[MESSAGE], text
