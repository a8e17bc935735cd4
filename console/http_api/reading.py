"""A partner's request, read once: credentials, headers, a body that is read within limits."""

from typing import Any, Final

from django.http import HttpRequest
from gunicorn.http.errors import ParseException

from console.server.arriving import Ending
from console.server.limits import BODY_SECONDS, HTTP_API_BODY_BYTES
from integration.http_api import spans
from integration.http_api.bodies import check_type
from integration.http_api.body_errors import (
    BadFramingError,
    BodyTooLargeError,
    CutShortError,
    NoRoomError,
    TooSlowError,
)
from integration.http_api.callers import Caller, caller_of, credentials_in
from integration.http_api.errors import BadHeaderError
from integration.http_api.pace import count_post
from integration.http_api.receipts import Post
from integration.restore.adopting import refuse_if_held

PIECE_BYTES: Final = 64 * 1024
LONGEST_ID: Final = 200
LONGEST_KEY: Final = 500
SENDER_IDS: Final = ("Idempotency-Key", "Sluice-Message-Id")


def caller_at(request: HttpRequest, *, is_legacy_path: bool = False) -> Caller:
    """The caller. Raises what `caller_of` raises."""
    given = request.headers
    credentials = credentials_in(given.get("Authorization", ""), given.get("Maxauth", ""))
    return caller_of(credentials, is_legacy_path=is_legacy_path)


def post_in(request: HttpRequest, caller: Caller, service: str, address: str) -> Post:
    """Read the post; refuse it before reading its body if possible. Raises HttpApiErrors."""
    refuse_if_held()
    given = request.headers
    media = check_type(given.get("Content-Type", ""), given.get("Content-Encoding", ""))
    sender_id, key = _sender_id(request), header_in(request, "Sluice-Key", LONGEST_KEY)
    sent_context, context = spans.place(given.get("traceparent", ""), given.get("tracestate", ""))
    count_post(caller.system_id, caller.requests_per_minute)
    return Post(
        system_id=caller.system_id,
        system=caller.system,
        service=service,
        body=body_of(request, caller.max_body_bytes),
        format=media,
        most_bytes=caller.max_body_bytes,
        address=address,
        sender_id=sender_id,
        key=None if key is None else key.encode(),
        sent_context=sent_context,
        context=context,
        users=caller.users,
    )


def _sender_id(request: HttpRequest) -> str | None:
    """The sender's own id, from either header. Raises BadHeaderError."""
    ids = {header_in(request, name, LONGEST_ID, is_quoted=True) for name in SENDER_IDS} - {None}
    if len(ids) > 1:
        raise BadHeaderError(
            name="Sluice-Message-Id", wanted="the same as Idempotency-Key, or left out"
        )
    return ids.pop() if ids else None


def header_in(
    request: HttpRequest, name: str, longest: int, *, is_quoted: bool = False
) -> str | None:
    """A header's text, None where there is none. Raises BadHeaderError.

    `is_quoted`: it may stand in blanks and quotation marks, which are no part of it.
    """
    text = request.headers.get(name, "")
    if not text:
        return None
    if is_quoted:
        text = text.strip()
        text = text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text
    if not (0 < len(text) <= longest and text.isascii() and text.isprintable()):
        raise BadHeaderError(name=name, wanted=f"1 to {longest} printable ASCII characters")
    return text


def body_of(request: HttpRequest, most_bytes: int) -> bytes:
    """The whole body. Raises BodyTooLargeError before more than that is read.

    Raises CutShortError, TooSlowError, NoRoomError and BadFramingError where it did not come
    whole. Read past Django, which knows no chunked bodies and stores large ones on disk.
    """
    meta = request.META
    is_chunked = "chunked" in meta.get("HTTP_TRANSFER_ENCODING", "").lower()
    announced = None if is_chunked else _length(meta.get("CONTENT_LENGTH") or "0")
    if announced is not None and announced > most_bytes:
        raise BodyTooLargeError(most_bytes=most_bytes)
    wanted = most_bytes + 1 if announced is None else announced
    ending = getattr(meta.get("gunicorn.socket"), "ending", Ending.WHOLE)
    try:
        body = _read(meta, wanted)
    except (CutShortError, BadFramingError):
        # Chunks that were not waited for look like a fault of the sender's.
        _check(ending, most_bytes)
        raise
    if len(body) > most_bytes:
        raise BodyTooLargeError(most_bytes=most_bytes)
    _check(ending, most_bytes)
    if announced is not None and len(body) < announced:
        raise CutShortError
    return body


def _length(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadHeaderError(name="Content-Length", wanted="a number of bytes")
    return int(text)


def _read(meta: Any, wanted: int) -> bytes:
    """At most `wanted` bytes. Behind our own server they have all come already, or never will."""
    stream, parts, left = meta["wsgi.input"], [], wanted
    try:
        while left and (piece := stream.read(min(left, PIECE_BYTES))):
            parts.append(piece)
            left -= len(piece)
    except OSError as failure:
        raise CutShortError from failure
    except ParseException as failure:
        raise BadFramingError from failure
    return b"".join(parts)


def _check(ending: Ending, most_bytes: int) -> None:
    """Raise the reason why the server stopped waiting for the rest of the body."""
    if ending is Ending.TOO_LARGE:
        raise BodyTooLargeError(most_bytes=min(most_bytes, HTTP_API_BODY_BYTES))
    if ending is Ending.TOO_SLOW:
        raise TooSlowError(seconds=BODY_SECONDS)
    if ending is Ending.NO_ROOM:
        raise NoRoomError
    if ending is Ending.CUT_SHORT:
        raise CutShortError
