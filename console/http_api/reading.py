"""What a partner's request holds: credentials, headers, a body that is read within limits."""

from typing import Any, Final

from django.http import HttpRequest
from gunicorn.http.errors import ParseException

from console.server.arriving import Ending
from console.server.limits import BODY_SECONDS, HTTP_API_BODY_BYTES
from integration.http_api.body_problems import (
    BadFramingError,
    BodyTooLargeError,
    CutShortError,
    NoRoomError,
    TooSlowError,
)
from integration.http_api.callers import Caller, at_home, caller_of, credentials_in
from integration.http_api.problems import BadHeaderError
from integration.http_api.receipts import check_sender_id

PIECE_BYTES: Final = 64 * 1024
LONGEST_KEY: Final = 500
SENDER_IDS: Final = (
    ("Idempotency-Key", "HTTP_IDEMPOTENCY_KEY"),
    ("Sluice-Message-Id", "HTTP_SLUICE_MESSAGE_ID"),
)


def caller_at(request: HttpRequest, system: str | None, *, is_legacy_path: bool = False) -> Caller:
    """Who asks, and is at home in that system. Raises what `caller_of` and `at_home` raise."""
    meta = request.META
    found = credentials_in(meta.get("HTTP_AUTHORIZATION", ""), meta.get("HTTP_MAXAUTH", ""))
    caller = caller_of(found, is_legacy_path=is_legacy_path)
    return caller if system is None else at_home(caller, system)


def sender_id_in(request: HttpRequest) -> str | None:
    """The sender's own id, from either header. Raises BadHeaderError."""
    found = {
        sent
        for name, variable in SENDER_IDS
        if (sent := check_sender_id(request.META.get(variable, ""), name)) is not None
    }
    if len(found) > 1:
        raise BadHeaderError("Sluice-Message-Id", "the same as Idempotency-Key, or left out")
    return found.pop() if found else None


def key_in(request: HttpRequest) -> bytes | None:
    """The Kafka key that the sender wants, or None. Raises BadHeaderError."""
    text = str(request.META.get("HTTP_SLUICE_KEY", ""))
    if not text:
        return None
    if len(text) > LONGEST_KEY or not text.isascii() or not text.isprintable():
        raise BadHeaderError("Sluice-Key", f"1 to {LONGEST_KEY} printable ASCII characters")
    return text.encode()


def body_of(request: HttpRequest, most_bytes: int) -> bytes:
    """The whole body. Raises BodyTooLargeError before more than that is read.

    Raises CutShortError, TooSlowError, NoRoomError and BadFramingError where it did not come
    whole. Read past Django, which knows no chunked bodies and stores large ones on disk.
    """
    meta = request.META
    is_chunked = "chunked" in meta.get("HTTP_TRANSFER_ENCODING", "").lower()
    announced = None if is_chunked else _length(meta.get("CONTENT_LENGTH") or "0")
    if announced is not None and announced > most_bytes:
        raise BodyTooLargeError(most_bytes)
    wanted = most_bytes + 1 if announced is None else announced
    body = _read(meta, wanted)
    if len(body) > most_bytes:
        raise BodyTooLargeError(most_bytes)
    _check(getattr(meta.get("gunicorn.socket"), "ending", Ending.WHOLE), most_bytes)
    if announced is not None and len(body) < announced:
        raise CutShortError
    return body


def _length(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadHeaderError("Content-Length", "a number of bytes")
    return int(text)


def _read(meta: Any, wanted: int) -> bytes:
    """At most `wanted` bytes. Behind our own server they have all come already, or never will."""
    stream, found, left = meta["wsgi.input"], [], wanted
    try:
        while left and (piece := stream.read(min(left, PIECE_BYTES))):
            found.append(piece)
            left -= len(piece)
    except OSError as failure:
        raise CutShortError from failure
    except ParseException as failure:
        raise BadFramingError from failure
    return b"".join(found)


def _check(ending: Ending, most_bytes: int) -> None:
    """Why the server waited for no more of the body, where it had not come whole."""
    if ending is Ending.TOO_LARGE:
        raise BodyTooLargeError(min(most_bytes, HTTP_API_BODY_BYTES))
    if ending is Ending.TOO_SLOW:
        raise TooSlowError(BODY_SECONDS)
    if ending is Ending.NO_ROOM:
        raise NoRoomError
    if ending is Ending.CUT_SHORT:
        raise CutShortError
