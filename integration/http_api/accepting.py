"""Taking a post into a queue or a channel: durable before it is answered, whatever Kafka does."""

from collections.abc import Sequence
from typing import Final

from django.db import transaction

from integration.handlers.channels import UnknownChannelError
from integration.handlers.outgoing import INTERFACE, MESSAGE_ID, SENDER
from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.publishing import publish_document
from integration.handlers.user_proof import PROOF, proof_of
from integration.http_api import receipts
from integration.http_api.bodies import Piece
from integration.http_api.errors import NoSuchChannelError, NotPublishedError
from integration.http_api.receipts import Answer, Post
from integration.models import Queue
from integration.store import outbox
from integration.store.sessions import alias, fetch_all
from integration.tracing import context
from integration.values import Headers, Outgoing

USER: Final = "sluice-user"
ACCEPTED: Final = 202
_NEXT_ROW: Final = "SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id'))"


def accept(post: Post, pieces: Sequence[Piece], queue: Queue) -> Answer:
    """Write the messages and their receipt in one transaction; all of them or none.

    When it returns, they are committed. Raises AnotherWasFasterError.
    """
    count, strict = len(pieces), queue.pk if queue.is_sequential else None
    answer = Answer(ACCEPTED, post.facts(count, "accepted"))
    ids = message_ids(post.message_id, count)
    rows = [
        Outgoing(
            topic=queue.topic,
            value=piece.payload,
            key=post.key,
            headers=headers_of(post, piece, message_id, queue.topic),
            provider_id=queue.provider_id,
            message_id=message_id,
            strict_queue=strict,
        )
        for piece, message_id in zip(pieces, ids, strict=True)
    ]
    if count == 1 and strict is None:
        # What nearly every post is, in one statement that is its own transaction. BEGIN, two
        # statements and COMMIT took the database and a thread 1.6 to 1.8 times as long.
        receipts.write_with_message(post, answer, rows[0], queue.pk)
        return answer
    with transaction.atomic(using=alias()):
        before = fetch_all(_NEXT_ROW)[0][0] if count > 1 else None
        outbox.insert(rows)
        receipts.write_queued(post, answer, count=count, queue_id=queue.pk, before=before)
    return answer


def publish_post(post: Post) -> Answer:
    """Publish the body to the channel that `post.service` names; durable when it returns.

    Raises NoSuchChannelError, NotPublishedError, QueueLockTimeoutError, AnotherWasFasterError.
    """
    key = None if post.key is None else post.key.decode()
    try:
        with transaction.atomic(using=alias()):
            headers = _context_headers(post)
            before = fetch_all(_NEXT_ROW)[0][0]
            ids = publish_document(post.service, post.body, key, headers=headers).ids
            facts = {
                "message_id": post.message_id,
                "service": post.service,
                "count": len(ids),
                "state": "accepted",
                "messages": dict(ids),
            }
            answer = Answer(ACCEPTED, facts)
            if ids:
                receipts.write_published(post, answer, before=before)
            else:
                receipts.write_called(post, answer, count=1)
    except UnknownChannelError as unknown:
        raise NoSuchChannelError(channel=post.service) from unknown
    except PayloadRefusedError as refused:
        raise NotPublishedError(refused) from refused
    return answer


def message_ids(message_id: str, count: int) -> list[str]:
    """The id of each message of a post: its own, or with a number behind it.

    >>> message_ids("a", 1), message_ids("a", 2)
    (['a'], ['a.1', 'a.2'])
    """
    if count == 1:
        return [message_id]
    return [f"{message_id}.{place}" for place in range(1, count + 1)]


def headers_of(post: Post, piece: Piece, message_id: str, topic: str) -> Headers:
    """The facts of a bare payload, as the engine reads them; of the request only its trace.

    A user that its sender may speak for comes with a proof.
    """
    facts: list[tuple[str, bytes | None]] = [
        (MESSAGE_ID, message_id.encode()),
        (INTERFACE, post.service.encode()),
        (SENDER, post.system.encode()),
    ]
    if piece.user:
        facts.append((USER, piece.user.encode()))
    if piece.user in post.users:
        proof = proof_of(piece.user, message_id, post.service, topic, piece.payload)
        facts.append((PROOF, proof.encode()))
    return [*facts, *_context_headers(post)]


def _context_headers(post: Post) -> Headers:
    return [] if post.context is None else context.headers_of(post.context)
