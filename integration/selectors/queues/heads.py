"""The message at the head of a blocked queue, and the sentence that tells what it stops."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from integration.durations import spoken
from integration.models import MessageError
from integration.policy.states import ErrorState
from integration.selectors.masking.covers import UNCOVERED, Cover, covers_of
from integration.selectors.masking.rules import any_rules
from integration.selectors.queues.rows import QueueRow
from integration.selectors.queues.status import Status

TEXT_LENGTH: Final = 220
NAME_LENGTH: Final = 60
HEAD_CODE: Final = "HEAD_HELD"
# Decisions of a person that no worker has carried out yet.
DECIDED: Final[Mapping[str, str]] = {
    ErrorState.READY: "It was released and goes first as soon as a worker takes the queue.",
    ErrorState.PROCESSING: "It is being tried at this moment.",
    ErrorState.DELETED: "It was deleted; the queue continues as soon as a worker takes it.",
    ErrorState.RESOLVED: "It is resolved; the queue continues as soon as a worker takes it.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The failure that stops a queue. `name` is its key or id only where payloads may be seen.

    `key` is empty where it may not be seen, or is no text.
    """

    id: UUID
    version: int
    state: str
    name: str
    text: str
    key: str = ""

    @property
    def is_held(self) -> bool:
        return self.state == ErrorState.HOLD

    @property
    def decision(self) -> str:
        return DECIDED.get(self.state, "")


def heads(rows: Iterable[QueueRow], *, reveal: bool) -> dict[UUID, Head]:
    """The failures these queues are blocked by, in one query; none without any."""
    ids = {part.failure for row in rows for part in row.partitions if part.failure is not None}
    if not ids:
        return {}
    columns = ("version", "state", "offset", "key", "message_id", "text", "code")
    failures = MessageError.objects.filter(pk__in=ids).only(*columns).order_by()
    read = list(failures.annotate(has_rules=any_rules()))
    found = covers_of(ids) if any(error.has_rules for error in read) else {}
    covered = ((error, found.get(error.pk, UNCOVERED)) for error in read)
    return {error.pk: _head(error, cover, reveal=reveal) for error, cover in covered}


def _head(error: MessageError, cover: Cover, *, reveal: bool) -> Head:
    """People call the message by its key, else by its id; by its offset who may see no keys.

    By its id, too, where its key is masked.
    """
    key = _key_of(error) if reveal else ""
    if cover.key(key) != key:
        key = ""
    called = (key.strip() or error.message_id) if reveal else ""
    return Head(
        id=error.pk,
        version=error.version,
        state=error.state,
        name=_shortened(called, NAME_LENGTH) if called else f"offset {error.offset:,}",
        text=cover.text(error.text, error.code),
        key=key,
    )


def _key_of(error: MessageError) -> str:
    """The record's key where people can read it."""
    try:
        text = b"" if error.key is None else bytes(error.key)
        key = text.decode()
    except UnicodeDecodeError:
        return ""
    return key if key.isprintable() else ""


def is_blocked_by_head(row: QueueRow) -> bool:
    return row.standing[0] is Status.BLOCKED and HEAD_CODE in row.blocked_codes


def blocked_for(row: QueueRow, head: Head | None, now: datetime) -> str:
    """Say what stands in the way and since when: "Blocked 7 h by AZ163: siteid missing."."""
    since = f" {spoken(now - row.since)}" if row.since is not None else ""
    if head is None:
        return f"Blocked{since}: {row.standing[1].why}"
    text = _shortened(head.text.strip() or "no reason was given", TEXT_LENGTH).rstrip(".")
    return f"Blocked{since} by {head.name}: {text}."


def behind(row: QueueRow, now: datetime) -> str:
    """Say what waits and what threatens it.

    "At most 4,212 wait behind it, counted 9 s ago; the first expires Sunday 12:00." Offsets of
    Kafka are no exact count: the marks of transactions have some, too.
    """
    if row.lag is None:
        return "It is not known how many wait behind it."
    count = max(0, row.lag - 1) if HEAD_CODE in row.blocked_codes else row.lag
    ago = f"{spoken(now - row.counted_at)} ago" if row.counted_at is not None else ""
    if not count:
        return _nothing_behind(row, ago)
    counted = f", counted {ago}" if ago else ""
    if row.is_least:
        return f"At least {count:,} wait behind it{counted}."
    waits = "one waits behind it" if count == 1 else f"{count:,} wait behind it"
    waits = f"{waits.capitalize() if row.is_jms else f'At most {waits}'}{counted}"
    if row.expires_at is None:
        return f"{waits}."
    first = "it" if count == 1 else "the first"
    return f"{waits}; {first} {expires(row.expires_at, now)}."


def _nothing_behind(row: QueueRow, ago: str) -> str:
    """What was counted before the queue stopped says nothing of what came after its head."""
    if not row.counted_at or (row.since is not None and row.counted_at <= row.since):
        return "How many wait behind it has not been counted yet."
    return f"Nothing waited behind it {ago}."


def expires(at: datetime, now: datetime) -> str:
    """Say when it leaves the topic, in the words of a person of this week (UTC)."""
    if at <= now:
        return "may leave Kafka at any moment"
    clock = f"{at:%H:%M}"
    if at.date() == now.date():
        return f"expires today {clock}"
    if at - now < timedelta(days=6):
        return f"expires {at:%A} {clock}"
    return f"expires {at.day} {at:%B} {clock}"


def _shortened(text: str, most: int) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= most else f"{one_line[: most - 1]}…"
