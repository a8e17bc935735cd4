"""The partitions of tracking as the database tells them: for its keeping, and for bulk jobs."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

TABLE: Final = "integration_messagetrack"
DEFAULT: Final = f"{TABLE}_default"
# A day is attached and taken off under locks that batches need too: rather later than long.
BRIEF: Final = "SET LOCAL lock_timeout = '500ms'"
ONE_AT_A_TIME: Final = f"SELECT pg_advisory_xact_lock(hashtext('{TABLE}'))"
# The bounds are told in the time zone of the session.
IN_UTC: Final = "SET LOCAL TimeZone = 'UTC'"
LIST: Final = f"""
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = '{TABLE}'::regclass ORDER BY c.relname
"""
_BOUNDS: Final = re.compile(r"FROM \((?:'([^']+)'|MINVALUE)\) TO \('([^']+)'\)")


@dataclass(frozen=True, slots=True)
class Part:
    """One partition that has bounds; without `begin` it holds everything before `until`."""

    table: str
    begin: datetime | None
    until: datetime


def parts_of(listed: Iterable[tuple[Any, ...]]) -> list[Part]:
    """Read what LIST told, in UTC, without the default partition."""
    matches = [(name, _BOUNDS.search(bound)) for name, bound in listed]
    return [Part(name, _moment(m[1]), _aware(m[2])) for name, m in matches if m is not None]


def _moment(text: str | None) -> datetime | None:
    return None if text is None else _aware(text)


def _aware(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
