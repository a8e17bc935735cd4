"""What tracking keeps of a message besides its ids: search ids, its cause, its payload."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from integration.delivery.values import Headers, Record
from integration.paths import BadPath, compile_path, text_reader

CAUSE: Final = "sluice-cause"
# A column people search by; what is longer is no id.
LONGEST_ID: Final = 200
# Larger payloads are left to Kafka and, when they fail, to the failure's row.
LARGEST_PAYLOAD_BYTES: Final = 2**20
QUICKEST: Final = 1
# A named tuple's own constructor is a Python function: twice the time, once for every message.
new_tuple: Final = tuple.__new__
Reader = Callable[[object], str | None]
Ids = tuple[str | None, str | None, str | None, str | None, bytes | None]
"""The columns of a trace without its text."""
Writer = Callable[[bytes | None, int | None, Ids], str]
"""The text of a trace, from the record's key, Kafka's time in ms and the columns."""


class Trace(NamedTuple):
    """The columns of one message; None = there is none.

    `text` is what the store made of them, of the key and of Kafka's time while it read the
    message, before the time counts in which its batch holds the database; "" = nothing yet.
    """

    external_id: str | None
    search_a: str | None
    search_b: str | None
    caused_by: str | None
    payload: bytes | None
    text: str = ""


Track = tuple[int, str, str, str, bytes | None, int | None, Trace | None]
"""(offset, message id, interface, ended, key, Kafka's time in ms, trace) of a message that ended.

A plain tuple: one is made for every message on the hot path.
"""


@dataclass(frozen=True, slots=True)
class Following:
    """What one service or channel wants to be followed: up to three texts, and the payload."""

    readers: tuple[Reader | None, Reader | None, Reader | None]
    keeps_payload: bool = False
    write: Writer | None = None


def following(
    external_id_path: str,
    search_paths: Sequence[str],
    *,
    keeps_payload: bool,
    write: Writer | None = None,
) -> Following | None:
    """What is to be followed, None for nothing. A path that is none any more finds nothing."""
    wanted = [external_id_path, *search_paths[:2], "", ""][:3]
    first, second, third = (_compiled(path) for path in wanted)
    if not keeps_payload and (first, second, third) == (None, None, None):
        return None
    return Following((first, second, third), keeps_payload, write)


def trace_of(record: Record, body: object, follow: Following | None) -> Trace | None:
    """What tracking keeps of this message; None for nothing. Never raises."""
    cause = _cause(record.headers) if record.headers else None
    if follow is None:
        return None if cause is None else Trace(None, None, None, cause, None)
    first, second, third = follow.readers
    ids = (
        None if first is None else first(body),
        None if second is None else second(body),
        None if third is None else third(body),
        cause,
        _compressed(record.value) if follow.keeps_payload else None,
    )
    write = follow.write
    text = "" if write is None else write(record.key, record.timestamp_ms, ids)
    return new_tuple(Trace, (*ids, text))


def _compiled(path: str) -> Reader | None:
    if not path:
        return None
    try:
        return text_reader(compile_path(path), LONGEST_ID)
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
