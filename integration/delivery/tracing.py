"""What tracking keeps of a message besides its ids: search ids, its cause, its payload."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from integration.delivery.values import Headers, Record
from integration.paths import BadPath, Path, compile_path, text_at

CAUSE: Final = "sluice-cause"
# A column people search by; what is longer is no id.
LONGEST_ID: Final = 200
# Larger payloads are left to Kafka and, when they fail, to the failure's row.
LARGEST_PAYLOAD_BYTES: Final = 2**20
QUICKEST: Final = 1


class Trace(NamedTuple):
    """The columns of one message; None = there is none."""

    external_id: str | None
    search_a: str | None
    search_b: str | None
    caused_by: str | None
    payload: bytes | None


Track = tuple[int, str, str, str, bytes | None, int | None, Trace | None]
"""(offset, message id, interface, ended, key, Kafka's time in ms, trace) of a message that ended.

A plain tuple: one is made for every message on the hot path.
"""


@dataclass(frozen=True, slots=True)
class Following:
    """What one service or channel wants to be followed: up to three paths, and the payload."""

    paths: tuple[Path | None, Path | None, Path | None]
    keeps_payload: bool = False


def following(
    external_id_path: str, search_paths: Sequence[str], *, keeps_payload: bool
) -> Following | None:
    """What is to be followed, None for nothing. A path that is none any more finds nothing."""
    wanted = [external_id_path, *search_paths[:2], "", ""][:3]
    first, second, third = (_compiled(path) for path in wanted)
    if not keeps_payload and (first, second, third) == (None, None, None):
        return None
    return Following((first, second, third), keeps_payload)


def trace_of(record: Record, body: object, follow: Following | None) -> Trace | None:
    """What tracking keeps of this message; None for nothing. Never raises."""
    cause = _cause(record.headers) if record.headers else None
    if follow is None:
        return None if cause is None else Trace(None, None, None, cause, None)
    first, second, third = follow.paths
    return Trace(
        None if first is None else text_at(first, body, LONGEST_ID),
        None if second is None else text_at(second, body, LONGEST_ID),
        None if third is None else text_at(third, body, LONGEST_ID),
        cause,
        _compressed(record.value) if follow.keeps_payload else None,
    )


def _compiled(path: str) -> Path | None:
    if not path:
        return None
    try:
        return compile_path(path)
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
