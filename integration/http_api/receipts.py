"""Receipts in SQL: what was accepted under which id, and what was answered."""

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from psycopg.types.json import Jsonb

from integration.envelope import DEFAULT
from integration.handlers.outbound import ID_SPACE
from integration.http_api.errors import OtherContentError
from integration.models import Receipt
from integration.store import outbox
from integration.store.sessions import fetch_all
from integration.tracing.context import TraceContext
from integration.values import Outgoing

_COLUMNS: Final = (
    "system_id, sender_id, message_id, interface, content_hash, status, answer, count, queue_id, "
    "first_row, last_row, received_at"
)
# The last number of the outbox that this session drew is its message's own, or its last one's.
_OWN_ROW: Final = "currval(pg_get_serial_sequence('integration_outboxrow', 'id'))"
_INSERT: Final = f"""
INSERT INTO integration_receipt ({_COLUMNS})
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, {{rows}}, clock_timestamp())
ON CONFLICT DO NOTHING RETURNING id"""
_QUEUED: Final = _INSERT.format(rows=f"coalesce(%s::bigint, {_OWN_ROW}), {_OWN_ROW}")
_CALLED: Final = _INSERT.format(rows="NULL, NULL")
_PUBLISHED: Final = _INSERT.format(rows=f"%s::bigint, {_OWN_ROW}")
# Receipt first: where its id is taken, no message is written. Both have the number that is drawn.
_WITH_MESSAGE: Final = f"""
WITH drawn AS (SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id')) AS row),
receipt AS (
INSERT INTO integration_receipt ({_COLUMNS})
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, row, row, clock_timestamp() FROM drawn
ON CONFLICT DO NOTHING RETURNING first_row)
INSERT INTO integration_outboxrow (id, {outbox.COLUMNS})
SELECT first_row, {outbox.MARKS} FROM receipt RETURNING id"""
_EARLIER: Final = (
    "SELECT content_hash, status, answer FROM integration_receipt "
    "WHERE system_id = %s AND sender_id = %s"
)


class AnotherWasFasterError(Exception):
    """The same id was accepted by another request meanwhile; undoes a transaction."""


@dataclass(frozen=True, kw_only=True)
class Post:
    """The post of a sender: so many bytes for a service, under an id of its own or none.

    `address` is how: into its queue, at once, or published. `format` is the announced one (json,
    xml or nothing), `most_bytes` what its system may post. `sent_context` is the place in a trace
    that it came from, `context` the one that its messages carry; None for none. `users` are those
    that its sender may speak for.
    """

    system_id: int
    system: str
    service: str
    body: bytes
    format: str = ""
    most_bytes: int = DEFAULT.max_bytes
    address: str = "esqueue"
    sender_id: str | None = None
    key: bytes | None = None
    sent_context: TraceContext | None = None
    context: TraceContext | None = None
    users: frozenset[str] = frozenset()

    @cached_property
    def content_hash(self) -> bytes:
        """Address, service, key and body: what has to be equal for a repetition."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.address.encode(), self.service.encode(), self.key or b"", self.body):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    @cached_property
    def message_id(self) -> str:
        """Derived from the system and the sender's id, else a new one.

        Not from its name, which another system may have had before, with the same ids.
        """
        if self.sender_id is None:
            return str(uuid.uuid4())
        return str(uuid.uuid5(ID_SPACE, f"door\n{self.system_id}\n{self.sender_id}"))

    def facts(self, count: int, state: str) -> dict[str, object]:
        """Return what an answer says of its messages."""
        facts = {"message_id": self.message_id, "service": self.service}
        if self.sender_id is not None:
            facts["sender_id"] = self.sender_id
        return {**facts, "count": count, "state": state}


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender; `is_repeat` = it was answered so before."""

    status: int
    facts: Mapping[str, Any]
    is_repeat: bool = False


def answered_once(post: Post, act: Callable[[], Answer]) -> Answer:
    """Return what was answered to the same post before, else what `act` answers to it.

    Of several requests with one sender's id one is accepted; the others wait for it and get its
    answer. Raises OtherContentError for an id that was used for something else.
    """
    while True:
        earlier = _earlier(post)
        if earlier is not None:
            return earlier
        with suppress(AnotherWasFasterError):
            return act()


def _earlier(post: Post) -> Answer | None:
    if post.sender_id is None:
        return None
    for content_hash, status, answer in fetch_all(_EARLIER, [post.system_id, post.sender_id]):
        if bytes(content_hash) != post.content_hash:
            raise OtherContentError(sender_id=post.sender_id)
        # Django's cursors hand JSON over as text.
        return Answer(status, json.loads(answer), is_repeat=True)
    return None


def write_queued(
    post: Post, answer: Answer, *, count: int, queue_id: int, before: int | None
) -> None:
    """Keep the answer in the transaction that has just written the outbox.

    `before`: the outbox's number before its first message, None when there is only one. Waits for
    another request with this id that is not decided yet; raises AnotherWasFasterError where that
    one is accepted.
    """
    _write(_QUEUED, post, answer, [count, queue_id, before])


def write_with_message(post: Post, answer: Answer, row: Outgoing, queue_id: int) -> None:
    """Write like `write_queued`, with the one message, in a statement that is a transaction.

    For a queue that is not strict, whose turn would have to be awaited first.
    """
    _write(_WITH_MESSAGE, post, answer, [1, queue_id, *outbox.parameters(row)])


def write_called(post: Post, answer: Answer, *, count: int) -> None:
    """Write like `write_queued`, for messages that were handled at once."""
    _write(_CALLED, post, answer, [count, None])


def write_published(post: Post, answer: Answer, *, before: int) -> None:
    """Write like `write_queued`, for a post whose outgoing messages go to queues of others."""
    _write(_PUBLISHED, post, answer, [1, None, before])


def of_message(system_id: int, id_: str) -> Receipt | None:
    """The receipt of a message id, else of a sender's own id; only of that system.

    Without a queue its messages were handled at once, or published where it has outgoing rows.
    """
    own = Receipt.objects.filter(system=system_id)
    return own.filter(message_id=id_).first() or own.filter(sender_id=id_).first()


def _write(sql: str, post: Post, answer: Answer, more: list[Any]) -> None:
    values = [post.system_id, post.sender_id, post.message_id, post.service, post.content_hash]
    if not fetch_all(sql, [*values, answer.status, Jsonb(dict(answer.facts)), *more]):
        raise AnotherWasFasterError
