"""Publishing to a channel over HTTP: for programs of this house that write no Django."""

from django.db import transaction

from integration.handlers.documents import publish_document
from integration.handlers.payloads import PayloadRefusedError
from integration.handlers.publishing import UnknownChannelError
from integration.http_api import receipts
from integration.http_api.problems import NoSuchChannelError, NotPublishedError
from integration.http_api.receipts import Answer, Post
from integration.store.sessions import alias

ACCEPTED = 202


class _AnotherWasFaster(Exception):  # noqa: N818 - undoes a transaction, reaches nobody
    """The same id was accepted by another request meanwhile."""


def publish_post(post: Post) -> Answer:
    """Publish the body to the channel that `post.service` names; durable when it returns.

    Raises NoSuchChannelError, NotPublishedError, OtherContentError and QueueLockTimeoutError.
    """
    while True:
        try:
            with transaction.atomic(using=alias()):
                return _written(post)
        except UnknownChannelError as unknown:
            raise NoSuchChannelError(post.service) from unknown
        except PayloadRefusedError as refused:
            raise NotPublishedError(refused) from refused
        except _AnotherWasFaster:
            known = receipts.earlier(post)
            if known is not None:
                return known


def _written(post: Post) -> Answer:
    key = None if post.key is None else post.key.decode()
    published = publish_document(post.service, post.body, key)
    message_id = post.message_id()
    facts = {
        "message_id": message_id,
        "service": post.service,
        "count": len(published.ids),
        "state": "accepted",
        "messages": dict(published.ids),
    }
    answer = Answer(ACCEPTED, facts)
    if not receipts.write_called(post, answer, message_id, count=1):
        raise _AnotherWasFaster
    return answer
