"""A failure as one line of a list, with the beginning of its key, without masked values."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BinaryField, QuerySet
from django.db.models.functions import Substr

from integration.envelope.dead_letters import TOPIC_HEADERS
from integration.models import MessageError
from integration.selectors.failures.cause_ids import cause_id
from integration.selectors.failures.payloads import KEY_BYTES, key_text
from integration.selectors.masking.covers import Limits, covers
from integration.selectors.masking.rules import any_rules

# Read under another name than the line has.
READ_AS: Final = {"queue": "queue__name", "is_edited": "edited_at", "is_expired": "expired_at"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRow:
    """One line of the list. `key` is of the payload: pages show it by the right to see those.

    `fingerprint` is the id of its cause.
    """

    id: UUID
    version: int
    queue: str
    partition: int
    offset: int
    message_id: str
    interface: str
    state: str
    code: str
    text: str
    fingerprint: str
    attempts: int
    not_before: datetime | None
    is_edited: bool
    is_expired: bool
    last_failed_at: datetime
    origin_topic: str
    key: str


COLUMNS: Final = tuple(
    READ_AS.get(field.name, field.name) for field in fields(FailureRow) if field.name != "key"
)


def rows_of(failures: QuerySet[MessageError], most: int | None = None) -> list[FailureRow]:
    """The first lines of these failures; nothing is asked but what the rows themselves hold.

    Where masking rules are set up, their texts, keys and origins are covered: that reads the
    payloads of those that a rule is for.
    """
    start = Substr("key", 1, KEY_BYTES, output_field=BinaryField())
    more = {"key_start": start, "has_rules": any_rules()}
    read = failures.values(*COLUMNS, "queue_id", "queue__system_id", **more)[:most]
    rows = [_row(values) for values in read]
    if not any(has_rules for _, _, has_rules in rows):
        return [row for row, _, _ in rows]
    found = covers(limits for _, limits, _ in rows)
    return [
        replace(
            row,
            text=cover.text(row.text, row.code),
            key=cover.key(row.key),
            origin_topic=cover.told(row.origin_topic, TOPIC_HEADERS),
        )
        if (cover := found.get(row.id)) is not None
        else row
        for row, _, _ in rows
    ]


def _row(values: Mapping[str, Any]) -> tuple[FailureRow, Limits, bool]:
    row = dict(values)
    has_rules = row.pop("has_rules")
    row["queue"] = row.pop("queue__name")
    row["fingerprint"] = cause_id(row["fingerprint"])
    row["is_edited"] = row.pop("edited_at") is not None
    row["is_expired"] = row.pop("expired_at") is not None
    row["key"] = key_text(row.pop("key_start"))
    limits = Limits(row["id"], row.pop("queue_id"), row.pop("queue__system_id"), row["interface"])
    return FailureRow(**row), limits, has_rules
