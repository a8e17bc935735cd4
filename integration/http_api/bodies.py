"""The way from the body of a post to its messages: read, opened, split, and nothing guessed."""

import re
from collections.abc import Iterator, Sized
from dataclasses import dataclass
from typing import Any, Final

from lxml import etree

from integration.envelope import DEFAULT, XML, Document, Flaw, FlawCode, Limits, read
from integration.envelope.json_text import element_texts
from integration.envelope.retry_wrapper import unwrap
from integration.http_api.body_errors import BodyTooLargeError
from integration.http_api.errors import (
    NestedEnvelopeError,
    NotAcceptedTypeError,
    OtherServiceError,
    TooManyMessagesError,
    UnreadableBodyError,
)
from integration.http_api.receipts import Post

MOST_MESSAGES: Final = 5_000
# What stands around the elements of a set is stored with each of them: so many times the largest
# body may come of one.
_MOST_TIMES: Final = 4
_JSON_TYPE: Final = re.compile(r"(?:application|text)/(?:[\w.-]+\+)?json")
_XML_TYPE: Final = re.compile(r"(?:application|text)/(?:[\w.-]+\+)?xml")
_SET: Final = "Set"


@dataclass(frozen=True, slots=True)
class Piece:
    """One message of a body: its bare payload, and the user its envelope named."""

    payload: bytes
    user: str | None = None


def check_type(content_type: str, encoding: str = "") -> str:
    """The format that is announced: json, xml or nothing. Raises NotAcceptedTypeError."""
    if encoding.strip().lower() not in {"", "identity"}:
        raise NotAcceptedTypeError(sentence=f"Content-Encoding {encoding[:40]!r} is not accepted.")
    media = content_type.partition(";")[0].strip().lower()
    if not media:
        return ""
    if _JSON_TYPE.fullmatch(media):
        return "json"
    if _XML_TYPE.fullmatch(media):
        return "xml"
    raise NotAcceptedTypeError(sentence=f"Content-Type {media[:80]!r} is not accepted.")


def pieces(post: Post) -> list[Piece]:
    """The messages in the body of a post, each as it goes to its handler, in order.

    A JSON array, and XML whose …Set element holds several elements of one name, are several
    messages; an envelope is opened. Every one is read by the engine's own rules, so what is
    accepted is readable. Raises HttpApiErrors; all or nothing.
    """
    body, most_bytes = post.body, post.most_bytes
    whole = _sound(read(body, None, Limits(max_bytes=most_bytes)), most_bytes)
    # No message may be larger than the engine reads.
    limits = Limits(max_bytes=min(most_bytes, DEFAULT.max_bytes))
    if post.format and (post.format == "xml") != (whole.mimetype == XML):
        sentence = f"The body is not the {post.format.upper()} that Content-Type says."
        raise NotAcceptedTypeError(sentence=sentence)
    parts = _parts(body, whole, _MOST_TIMES * most_bytes)
    if len(parts) == 1 and parts[0] is body and len(body) <= limits.max_bytes:
        return [_opened(body, whole, post.service, limits)]
    messages = []
    for place, part in enumerate(parts, start=1):
        where = f"Message {place:,} of {len(parts):,}: "
        document = _sound(read(part, None, limits), limits.max_bytes, where)
        messages.append(_opened(part, document, post.service, limits))
    return messages


def _parts(body: bytes, whole: Document, most_bytes: int) -> list[bytes]:
    if whole.wrapped:
        return [body]
    if isinstance(whole.body, list):
        if not whole.body:
            flaw = Flaw(FlawCode.EMPTY_BODY, "The array has no elements.")
            raise UnreadableBodyError(flaw)
        _refuse_too_many(whole.body)
        return [text.encode() for text in element_texts(body.decode().removeprefix("\ufeff"))]
    if whole.mimetype == XML:
        return _bounded(_elements(whole.body), most_bytes) or [body]
    return [body]


def _refuse_too_many(messages: Sized) -> None:
    """Before they are cut out of the body: each is another copy of its part of it."""
    if len(messages) > MOST_MESSAGES:
        raise TooManyMessagesError(count=len(messages), most=MOST_MESSAGES)


def _bounded(parts: Iterator[bytes], most_bytes: int) -> list[bytes]:
    """All of them. Raises BodyTooLargeError as soon as they are larger together than that."""
    taken, size = [], 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size > most_bytes:
            raise BodyTooLargeError(most_bytes=most_bytes)
    return taken


def _elements(root: Any) -> Iterator[bytes]:
    """One document for each child of the …Set element, if it has several of one name.

    The root and the set stay around each of them, with their attributes and namespaces.
    """
    group = _group(root)
    if group is None or len(group) < 2 or len({child.tag for child in group}) > 1:
        return
    _refuse_too_many(group)
    children = list(group)
    for child in children:
        group.remove(child)
        child.tail = None
    for child in children:
        group.append(child)
        yield etree.tostring(root, encoding="UTF-8")
        group.remove(child)


def _group(root: Any) -> Any | None:
    if _is_set(root):
        return root
    return root[0] if len(root) == 1 and _is_set(root[0]) else None


def _is_set(element: Any) -> bool:
    return bool(etree.QName(element).localname.endswith(_SET))


def _opened(part: bytes, document: Document, service: str, limits: Limits) -> Piece:
    """The payload out of its envelope: what goes on carries its facts in headers."""
    if not document.wrapped:
        _refuse_in_wrapper(part)
        return Piece(part)
    if document.interface is not None and document.interface != service:
        raise OtherServiceError(named=document.interface, service=service)
    payload = document.payload
    inner = payload.encode() if isinstance(payload, str) else payload
    # What the engine would open again could name another service than the token allows.
    if _sound(read(inner, None, limits), limits.max_bytes).wrapped:
        raise NestedEnvelopeError
    _refuse_in_wrapper(inner)
    return Piece(inner, document.user)


def _refuse_in_wrapper(payload: bytes) -> None:
    """Refuse an envelope in a retry wrapper: a queue that has the wrapper would open it, too."""
    wrapped = unwrap(payload)
    document = None if wrapped is None else read(wrapped[1])
    if isinstance(document, Document) and document.wrapped:
        raise NestedEnvelopeError


def _sound(document: Document | Flaw, most_bytes: int, where: str = "") -> Document:
    if not isinstance(document, Flaw):
        return document
    if document.code is FlawCode.TOO_LARGE:
        raise BodyTooLargeError(most_bytes=most_bytes)
    raise UnreadableBodyError(document, where)
