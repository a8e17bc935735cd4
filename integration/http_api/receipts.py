"""Receipts in SQL: what was accepted under which id, and what was answered."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from psycopg.types.json import Jsonb

from integration.handlers.publishing import ID_SPACE
from integration.http_api.problems import BadHeaderError, OtherContentError
from integration.store import outbox
from integration.store.sessions import django_connection
from integration.values import Outgoing

LONGEST_ID: Final = 200
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
# Receipt first: where its id is taken, no message is written. Both have the number that is drawn.
_WITH_MESSAGE: Final = f"""
WITH drawn AS (SELECT nextval(pg_get_serial_sequence('integration_outboxrow', 'id')) AS row),
receipt AS (
INSERT INTO integration_receipt ({_COLUMNS})
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, row, row, clock_timestamp() FROM drawn
ON CONFLICT DO NOTHING RETURNING first_row)
INSERT INTO integration_outboxrow (id, {outbox.COLUMNS})
SELECT first_row, {outbox.MARKS} FROM receipt RETURNING id"""
_FIND: Final = f"SELECT {_COLUMNS} FROM integration_receipt WHERE system_id = %s AND "


@dataclass(frozen=True, slots=True, kw_only=True)
class Post:
    """What a sender wants: so many bytes for a service, under an id of its own or none.

    `address` is how: into its queue, at once, or published.
    """

    system_id: int
    system: str
    service: str
    body: bytes
    address: str = "esqueue"
    sender_id: str | None = None
    key: bytes | None = None

    @property
    def content_hash(self) -> bytes:
        """Address, service, key and body: what has to be equal for a repetition."""
        digest = hashlib.blake2b(digest_size=16)
        for part in (self.address.encode(), self.service.encode(), self.key or b"", self.body):
            digest.update(len(part).to_bytes(8, "big") + part)
        return digest.digest()

    def message_id(self) -> str:
        """Derived from the system and the sender's id, else a new one.

        Not from its name, which another system may have had before, with the same ids.
        """
        if self.sender_id is None:
            return str(uuid.uuid4())
        return str(uuid.uuid5(ID_SPACE, f"door\n{self.system_id}\n{self.sender_id}"))


@dataclass(frozen=True, slots=True)
class Stored:
    """A receipt as it is stored. Without `queue_id` its messages were handled at once."""

    system_id: int
    sender_id: str | None
    message_id: str
    interface: str
    content_hash: bytes
    status: int
    answer: Mapping[str, Any]
    count: int
    queue_id: int | None
    first_row: int | None
    last_row: int | None
    received_at: datetime


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender is told; `is_repeat` = it was told before."""

    status: int
    facts: Mapping[str, Any]
    is_repeat: bool = False


def check_sender_id(text: str, name: str) -> str | None:
    """The sender's own id, or None where it sent none. Raises BadHeaderError."""
    bare = text.strip()
    if len(bare) > 1 and bare[0] == bare[-1] == '"':
        bare = bare[1:-1]
    if not text:
        return None
    if not (0 < len(bare) <= LONGEST_ID and bare.isascii() and bare.isprintable()):
        raise BadHeaderError(name, f"1 to {LONGEST_ID} printable ASCII characters")
    return bare


def earlier(post: Post) -> Answer | None:
    """What was answered to the same post before, None if it is the first of its id.

    Raises OtherContentError for an id that was used for something else.
    """
    if post.sender_id is None:
        return None
    stored = _one("sender_id = %s", post.system_id, post.sender_id)
    if stored is None:
        return None
    if stored.content_hash != post.content_hash:
        raise OtherContentError(post.sender_id)
    return Answer(stored.status, stored.answer, is_repeat=True)


def write_queued(
    post: Post, answer: Answer, message_id: str, *, count: int, queue_id: int, before: int | None
) -> bool:
    """Keep the answer in the transaction that has just written the outbox.

    `before`: the outbox's number before its first message, None when there is only one. False
    when another request with this id was faster: the caller's transaction has to be undone.
    Waits for one that is not decided yet.
    """
    values = [*_values(post, answer, message_id), count, queue_id, before]
    return _is_written(_QUEUED, values)


def write_with_message(
    post: Post, answer: Answer, message_id: str, row: Outgoing, queue_id: int
) -> bool:
    """Keep the answer and write its one message, in a statement that is its own transaction.

    For a queue that is not strict, whose turn would have to be awaited first. False when another
    request with this id was faster: nothing is written then. Waits for one that is not decided.
    """
    values = [*_values(post, answer, message_id), 1, queue_id, *outbox.parameters(row)]
    return _is_written(_WITH_MESSAGE, values)


def write_called(post: Post, answer: Answer, message_id: str, *, count: int) -> bool:
    """As `write_queued`, for messages that were handled at once."""
    return _is_written(_CALLED, [*_values(post, answer, message_id), count, None])


def of_message(system_id: int, id_: str) -> Stored | None:
    """The receipt of a message id, else of a sender's own id; only of that system."""
    return _one("message_id = %s", system_id, id_) or _one("sender_id = %s", system_id, id_)


def _values(post: Post, answer: Answer, message_id: str) -> list[Any]:
    return [
        post.system_id,
        post.sender_id,
        message_id,
        post.service,
        post.content_hash,
        answer.status,
        Jsonb(dict(answer.facts)),
    ]


def _is_written(sql: str, values: list[Any]) -> bool:
    with django_connection().cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone() is not None


def _one(condition: str, system_id: int, id_: str) -> Stored | None:
    with django_connection().cursor() as cursor:
        cursor.execute(_FIND + condition, [system_id, id_])
        row = cursor.fetchone()
    if row is None:
        return None
    hashed, answer = bytes(row[4]), row[6]
    # Django's cursors hand JSON over as text, the driver's own as what it says.
    facts = json.loads(answer) if isinstance(answer, str) else answer
    return Stored(*(*row[:4], hashed, row[5], facts, *row[7:]))
