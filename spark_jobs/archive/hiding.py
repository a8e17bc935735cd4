"""Hides in archived rows what masking rules hide on pages, and whatever else might repeat it.

It is a function of the row alone: the same row becomes the same one again when it is compared
with what was archived.
"""

import json
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from integration.masking.mask import HIDDEN, Mask
from spark_jobs.archive.parameters import ArchivedKind, ArchiveParameters
from spark_jobs.tables.columns import Column, ColumnKind
from spark_jobs.tables.masking import mask_by, masked_record

Row = Sequence[Any]
Hide = Callable[[Row], Row]
# Texts that are the engine's own, and names by which messages are found. Any other is hidden, also
# a fingerprint: whoever guesses the text of a failure could see by it that the guess is right.
KEPT: Final = frozenset(
    {
        *("id", "error_id", "queue_id", "topic_uuid", "message_id", "interface", "sender"),
        *("state", "failure_class", "code", "carrier", "retry_by", "ended"),
        *("origin_topic", "cause_class", "schema_subject", "caused_by"),
        *("at", "started_at", "action", "actor", "from_state", "to_state", "edited_by"),
    }
)
PAYLOADS: Final = frozenset({"payload", "edited_payload"})
# Of the tables whose rows go along, as JSON.
HISTORIES: Final = frozenset({"errorattempt", "errorchange"})


def hiding_of(parameters: ArchiveParameters, columns: Sequence[Column]) -> Hide | None:
    """What makes of a row one without masked values; None where nothing is to be hidden."""
    mask = mask_by(parameters.masking)
    if mask.is_empty or parameters.kind is ArchivedKind.RUNS:
        return None
    is_compressed = parameters.kind is ArchivedKind.MESSAGES
    hides = [_of_column(column, mask, is_compressed=is_compressed) for column in columns]
    return partial(_hidden, hides)


def _hidden(hides: Sequence[Callable[[Any], Any] | None], row: Row) -> Row:
    return [
        value if hide is None or value in {None, "", b""} else hide(value)
        for value, hide in zip(row, hides, strict=True)
    ]


def _of_column(column: Column, mask: Mask, *, is_compressed: bool) -> Callable[[Any], Any] | None:
    if column.name in PAYLOADS:
        if not mask.hides_payload:
            return None
        return partial(_compressed if is_compressed else masked_record, mask)
    if column.name in HISTORIES:
        return _history
    if column.name in KEPT or column.kind not in {ColumnKind.TEXT, ColumnKind.BYTES}:
        return None
    if column.name == "headers":
        return lambda _: json.dumps([[HIDDEN, None]], ensure_ascii=False)
    is_bytes = column.kind is ColumnKind.BYTES
    return lambda _: HIDDEN.encode() if is_bytes else HIDDEN


def _compressed(mask: Mask, payload: bytes) -> bytes:
    try:
        record = zlib.decompress(payload)
    except zlib.error:
        return zlib.compress(HIDDEN.encode())
    return zlib.compress(masked_record(mask, record))


def _history(text: str) -> str:
    """Entries with their numbers and moments, and without what people and handlers wrote."""
    entries = [
        {name: _entry(name, value) for name, value in entry.items()} for entry in json.loads(text)
    ]
    return json.dumps(entries, ensure_ascii=False)


def _entry(name: str, value: object) -> object:
    is_plain = value is None or isinstance(value, int | float) or value == ""
    return value if is_plain or name in KEPT else HIDDEN
