"""Taking a post into a queue: durable before it is answered, whatever Kafka does meanwhile."""

from collections.abc import Sequence
from typing import Final

from django.db import transaction

from integration.handlers.publishing import INTERFACE, MESSAGE_ID, SENDER
from integration.http_api import receipts
from integration.http_api.bodies import Piece
from integration.http_api.receipts import Answer, Post
from integration.http_api.routes import Route
from integration.store import outbox
from integration.store.sessions import alias, django_connection
from integration.values import Headers, Outgoing

USER: Final = "sluice-user"
ACCEPTED: Final = 202
# PostgreSQL takes 65,535 values in one statement.
_ROWS_A_STATEMENT: Final = 1_000
_NEXT_ROW: Final = "SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id'))"


class _AnotherWasFaster(Exception):  # noqa: N818 - undoes a transaction, reaches nobody
    """The same id was accepted by another request meanwhile."""


def accept(post: Post, pieces: Sequence[Piece], route: Route) -> Answer:
    """Write the messages and their receipt in one transaction; all of them or none.

    When it returns, they are committed. Of several requests with one sender's id one is
    accepted; the others wait for it and get its answer. Raises OtherContentError.
    """
    write = _written_alone if len(pieces) == 1 and route.strict is None else _written_together
    while True:
        try:
            return write(post, pieces, route)
        except _AnotherWasFaster:
            known = receipts.earlier(post)
            if known is not None:
                return known


def message_ids(message_id: str, count: int) -> list[str]:
    """The id of each message of a post: its own, or with a number behind it.

    >>> message_ids("a", 1), message_ids("a", 2)
    (['a'], ['a.1', 'a.2'])
    """
    if count == 1:
        return [message_id]
    return [f"{message_id}.{place}" for place in range(1, count + 1)]


def _written_alone(post: Post, pieces: Sequence[Piece], route: Route) -> Answer:
    """What nearly every post is: one message, in one statement that is its own transaction.

    BEGIN, two statements and COMMIT took the database and a thread 1.6 to 1.8 times as long.
    """
    message_id = post.message_id()
    row = _outgoing(post, pieces[0], message_id, route)
    answer = Answer(ACCEPTED, _facts(post, message_id, 1))
    if not receipts.write_with_message(post, answer, message_id, row, route.queue_id):
        raise _AnotherWasFaster
    return answer


def _written_together(post: Post, pieces: Sequence[Piece], route: Route) -> Answer:
    """Several messages, or one whose turn in a strict queue has to be awaited."""
    message_id = post.message_id()
    ids = message_ids(message_id, len(pieces))
    rows = [_outgoing(post, piece, id_, route) for piece, id_ in zip(pieces, ids, strict=True)]
    answer = Answer(ACCEPTED, _facts(post, message_id, len(pieces)))
    with transaction.atomic(using=alias()):
        before = _row_before() if len(pieces) > 1 else None
        for start in range(0, len(rows), _ROWS_A_STATEMENT):
            outbox.insert(rows[start : start + _ROWS_A_STATEMENT])
        is_first = receipts.write_queued(
            post, answer, message_id, count=len(pieces), queue_id=route.queue_id, before=before
        )
        if not is_first:
            raise _AnotherWasFaster
    return answer


def _row_before() -> int:
    with django_connection().cursor() as cursor:
        cursor.execute(_NEXT_ROW)
        (number,) = cursor.fetchone()
    return int(number)


def _outgoing(post: Post, piece: Piece, message_id: str, route: Route) -> Outgoing:
    return Outgoing(
        topic=route.topic,
        value=piece.payload,
        key=post.key,
        headers=headers_of(post, piece, message_id),
        provider_id=route.provider_id,
        message_id=message_id,
        strict_queue=route.strict,
    )


def headers_of(post: Post, piece: Piece, message_id: str) -> Headers:
    """The facts of a bare payload, as the engine reads them; nothing of the request besides."""
    found = [
        (MESSAGE_ID, message_id.encode()),
        (INTERFACE, post.service.encode()),
        (SENDER, post.system.encode()),
    ]
    return [*found, (USER, piece.user.encode())] if piece.user else found


def _facts(post: Post, message_id: str, count: int) -> dict[str, object]:
    found: dict[str, object] = {
        "message_id": message_id,
        "service": post.service,
        "count": count,
        "state": "accepted",
    }
    if post.sender_id is not None:
        found["sender_id"] = post.sender_id
    return found
