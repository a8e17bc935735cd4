"""Plain values of the engine: positions, records, topic facts, and what the engine owns."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

Headers = Sequence[tuple[str, bytes | None]]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Python's calendar ends before PostgreSQL's does. A day from either end of it each time zone has a
# moment, too.
_EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
_LATEST: Final = datetime(9999, 12, 31, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
EARLIEST_MS: Final = (_EARLIEST - _EPOCH) // _MILLISECOND
LATEST_MS: Final = (_LATEST - _EPOCH) // _MILLISECOND


def content_hash(value: bytes | None) -> bytes:
    """Return what tells a repetition of a message from another one under the same id."""
    return hashlib.blake2b(value or b"", digest_size=16).digest()


def moment_of(timestamp_ms: int | None) -> datetime | None:
    """Return the moment of a record's time, in milliseconds since 1970; None where it is unknown.

    A producer may write any number: those that Python or the database has no moment for tell
    nothing.
    """
    if timestamp_ms is None or not EARLIEST_MS <= timestamp_ms <= LATEST_MS:
        return None
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def is_readable(moment: datetime) -> bool:
    """Return whether Python can read the moment again, in whatever time zone, once it is stored.

    The database keeps moments in UTC: with an offset, the last hours of the year 9999 lie beyond
    what Python has.
    """
    return _EARLIEST <= moment <= _LATEST


def readable_moment(column: str) -> str:
    """SQL: the column's moment, NULL where it is one that Python does not have."""
    between = f"'{_EARLIEST.isoformat()}' AND '{_LATEST.isoformat()}'"
    return f"CASE WHEN {column} BETWEEN {between} THEN {column} END"


class Record:
    """One Kafka record of the run's topic. A plain slotted class: one is made per message.

    `ahead` is what a reader made of a record before its turn: the reader, and its unit.
    """

    __slots__ = ("ahead", "headers", "key", "offset", "partition", "timestamp_ms", "value")

    def __init__(  # noqa: PLR0917 - positional, as one is made for every message
        self,
        partition: int,
        offset: int,
        timestamp_ms: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
    ) -> None:
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.key = key
        self.value = value
        self.headers = headers
        self.ahead: tuple[object, Any] | None = None


class TroubleKind(StrEnum):
    """The trouble that Kafka told of instead of records."""

    OUT_OF_RANGE = "OUT_OF_RANGE"  # the position is below the log's start or above its end
    UNKNOWN_TOPIC = "UNKNOWN_TOPIC"  # topic or partition is gone
    UNAVAILABLE = "UNAVAILABLE"  # no broker, no leader, all down
    REFUSED = "REFUSED"  # the login
    CERTIFICATE = "CERTIFICATE"  # the broker's certificate is not accepted by us, or ours by it
    RIGHTS = "RIGHTS"  # logged in, and a right is missing
    PROTOCOL = "PROTOCOL"  # the port speaks another security protocol
    GROUP = "GROUP"  # the consumer group cannot be joined
    OTHER = "OTHER"  # any other client error: identity is checked again, then reading goes on


@dataclass(frozen=True, slots=True)
class Trouble:
    """One error event of the client; `partition` is None when it concerns all of them."""

    kind: TroubleKind
    partition: int | None
    text: str


@dataclass(slots=True)
class Fetched:
    """The result of one fetch: records by partition in offset order, ends reached, troubles.

    `ends` tells for each drained partition the position at its end. It lies beyond the last
    record's offset + 1 when transaction markers or aborted records follow: everything below
    it has been read.
    """

    records: dict[int, list[Record]] = field(default_factory=dict)
    drained: set[int] = field(default_factory=set)
    ends: dict[int, int] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.records.values()))


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """The broker's facts about a topic right now.

    `low` is the first offset still there, `high` the stable end a read_committed reader may
    reach, both by partition. `topic_uuid` changes when a topic is deleted and created again.
    """

    topic_uuid: str
    low: Mapping[int, int]
    high: Mapping[int, int]

    @property
    def partitions(self) -> int:
        return len(self.low)


@dataclass(frozen=True, slots=True)
class ProducersKnow:
    """From when on producers know of a partition that was added, and whether that `is_now`.

    Until then they may write its keys to the others.
    """

    at: datetime
    is_now: bool


@dataclass(frozen=True, slots=True)
class Assignment:
    """The partitions that a consumer group lets one of its members try. It decides nothing else."""

    member: str = ""
    partitions: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record for the outbox. `delay_seconds` makes it due later, by the database's clock.

    `timestamp_ms` is the record's time in Kafka; None: when it is written there.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    provider_id: int | None = None
    kind: str = "MESSAGE"
    message_id: str = ""
    error: UUID | None = None
    retry_no: int | None = None
    strict_queue: int | None = None
    delay_seconds: float | None = None
    timestamp_ms: int | None = None
