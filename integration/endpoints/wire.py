"""The head of an HTTP/1.1 answer as values. Pure; strict where leniency would misread bodies."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import httpcore

_END: Final = re.compile(rb"\r?\n\r?\n")
_LINES: Final = re.compile(r"\r?\n")
_STATUS: Final = re.compile(r"HTTP/1\.([01]) (\d{3})(?: .*)?", re.ASCII)
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;.*)?")
_LENGTH: Final = re.compile(r"\d{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Head:
    """Names are in lower case; fields that come twice are joined by a comma in `headers`.

    `length` is None where the body ends with the connection, or chunk by chunk; `is_kept` tells
    whether the connection serves for another request after the body.
    """

    status: int
    headers: Mapping[str, str]
    fields: Sequence[tuple[str, str]]
    length: int | None
    is_chunked: bool
    is_kept: bool


def line_end(received: bytearray) -> tuple[int, int] | None:
    """Where the head ends and where the body begins; None while it goes on."""
    found = _END.search(received)
    return None if found is None else found.span()


def head_of(text: bytes) -> Head:
    r"""Read a head without its last line end. Raises RemoteProtocolError.

    >>> head = head_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2")
    >>> head.status, head.length, head.is_kept
    (200, 2, True)
    """
    first, *lines = _LINES.split(text.decode("latin-1"))
    found = _STATUS.fullmatch(first)
    if found is None:
        raise httpcore.RemoteProtocolError("What came in is no answer of HTTP/1.1")
    fields = _fields(lines)
    headers: dict[str, str] = {}
    for name, value in fields:
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    status, is_chunked = int(found[2]), _is_chunked(headers)
    length = None if is_chunked else _length(headers)
    ends = length is not None or is_chunked or status in {204, 304}
    wishes = {word.strip() for word in headers.get("connection", "").lower().split(",")}
    # Two lengths are two opinions of where the next answer begins.
    is_clear = not (is_chunked and "content-length" in headers)
    is_kept = found[1] == "1" and ends and is_clear and "close" not in wishes
    return Head(status, headers, fields, length, is_chunked, is_kept)


def size_of(line: bytes) -> int:
    """The size that the first line of a chunk gives. Raises RemoteProtocolError.

    >>> size_of(b"1a;name=value")
    26
    """
    found = _SIZE.fullmatch(line)
    if found is None:
        raise httpcore.RemoteProtocolError("A chunk of the answer has no size")
    return int(found[1], 16)


def _fields(lines: Sequence[str]) -> list[tuple[str, str]]:
    fields: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith((" ", "\t")) and fields:
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip()}")
            continue
        name, colon, value = line.partition(":")
        if not colon or not _NAME.fullmatch(name):
            raise httpcore.RemoteProtocolError("The head of the answer holds what is no header")
        fields.append((name.lower(), value.strip(" \t")))
    return fields


def _is_chunked(headers: Mapping[str, str]) -> bool:
    coding = headers.get("transfer-encoding")
    if coding is None:
        return False
    if coding.lower() != "chunked":
        raise httpcore.RemoteProtocolError("The answer is coded in a way that nobody asked for")
    return True


def _length(headers: Mapping[str, str]) -> int | None:
    told = {word.strip() for word in headers.get("content-length", "").split(",")}
    if told == {""}:
        return None
    if len(told) > 1 or not _LENGTH.fullmatch(one := told.pop()):
        raise httpcore.RemoteProtocolError("The answer contradicts itself about its length")
    return int(one)
