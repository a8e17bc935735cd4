"""Facts that tracking keeps of a message besides its ids: search ids, its cause, its payload."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, NamedTuple

from integration.paths import BadPath, compile_path, texts_reader
from integration.tracing.context import trace_ids_of
from integration.values import Headers, Record

CAUSE: Final = "sluice-cause"
# A column people search by; what is longer is no id.
LONGEST_ID: Final = 200
# Of a key, so much tells it from another.
LONGEST_KEY: Final = 10_000
# Larger payloads are left to Kafka and, when they fail, to the failure's row.
LARGEST_PAYLOAD_BYTES: Final = 2**20
QUICKEST: Final = 1
# A named tuple's own constructor is a Python function: twice the time, once for every message.
new_tuple: Final = tuple.__new__
Texts = Sequence[str | None]
Reader = Callable[[Sequence[object]], Texts]
"""Return what a path finds in each of many bodies."""


class Tracked(NamedTuple):
    """The columns of one message; None = there is none.

    `text` is the row that the store made of the message while it was read, before the time counts
    in which its batch holds the database; "" = it is made when it is written.
    """

    external_id: str | None
    search_a: str | None
    search_b: str | None
    caused_by: str | None
    payload: bytes | None
    schema: int | None = None
    trace_id: str | None = None
    text: str = ""


class Messages(NamedTuple):
    """Messages of one service or channel; each sequence has one entry for a message."""

    interface: str
    records: Sequence[Record]
    ids: Sequence[str]
    bodies: Sequence[object]
    schemas: Sequence[int | None]


Columns = tuple[Texts, Texts, Texts, Texts, Sequence[bytes | None], Sequence[int | None], Texts]
"""The columns of traces without their text, each for all messages."""
Writer = Callable[[Messages, Columns], Sequence[str]]
"""The texts of traces."""
Track = tuple[int, str, str, str, bytes | None, int | None, Tracked | None]
"""(offset, message id, interface, ended, key, Kafka's time in ms, facts) of a message that ended.

A plain tuple: one is made for every message on the hot path.
"""


@dataclass(frozen=True, slots=True)
class Following:
    """Paths that one service or channel has followed: up to three texts; and the payload."""

    readers: tuple[Reader | None, Reader | None, Reader | None]
    keeps_payload: bool = False


NOTHING_MORE: Final = Following((None, None, None))
"""Paths of a service that follows none: a header alone tells what the message answers."""


def following(
    external_id_path: str, search_paths: Sequence[str], *, keeps_payload: bool
) -> Following | None:
    """Return the paths to follow, None for none. A path that no longer parses finds nothing."""
    wanted = [external_id_path, *search_paths[:2], "", ""][:3]
    first, second, third = (_compiled(path) for path in wanted)
    if not keeps_payload and (first, second, third) == (None, None, None):
        return None
    return Following((first, second, third), keeps_payload)


def tracked_of(messages: Messages, follow: Following, write: Writer | None) -> Sequence[Tracked]:
    """Return the facts that tracking keeps of each message. Never raises.

    Column by column: it is asked of every message, and so most of it runs at C's speed.
    """
    records, nothing = messages.records, (None,) * len(messages.records)
    first, second, third = (
        nothing if read is None else read(messages.bodies) for read in follow.readers
    )
    columns = (
        first,
        second,
        third,
        [_cause(record.headers) if record.headers else None for record in records],
        [_compressed(r.value) for r in records] if follow.keeps_payload else nothing,
        messages.schemas,
        trace_ids_of(records),
    )
    texts = repeat("") if write is None else write(messages, columns)
    return list(map(new_tuple, repeat(Tracked), zip(*columns, texts, strict=False)))


def order_texts(path: str) -> Reader | None:
    """Return what reads the key of an order out of documents; None where no path is set."""
    return _compiled(path, LONGEST_KEY)


def _compiled(path: str, longest: int = LONGEST_ID) -> Reader | None:
    if not path:
        return None
    try:
        return texts_reader(compile_path(path), longest)
    except BadPath:
        return None


def _cause(headers: Headers) -> str | None:
    for name, value in headers:
        if name == CAUSE and value:
            return value[:LONGEST_ID].decode("utf-8", "replace")
    return None


def _compressed(value: bytes | None) -> bytes | None:
    if value is None or len(value) > LARGEST_PAYLOAD_BYTES:
        return None
    return zlib.compress(value, QUICKEST)
