"""Rows that the current transaction has written so far, as PostgreSQL itself counts them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql

# Work that the session has not yet reported: this transaction's, and maybe older.
COUNTS: Final = """
SELECT relid::regclass::text, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables
WHERE n_tup_ins + n_tup_upd + n_tup_del > 0 ORDER BY 1
"""
Counts = Mapping[str, tuple[int, int, int]]
# A row version of this transaction or of one of its savepoints: its transaction began no
# earlier. Whatever other transactions began later is not visible at this isolation level.
ROWS: Final = sql.SQL(
    "SELECT to_jsonb(r)::text FROM {table} r "
    "WHERE age(r.xmin) <= age(pg_current_xact_id()::xid) LIMIT {limit}"
)


@dataclass(frozen=True, slots=True)
class TableChange:
    """The rows of one table that were written; `rows` shows some of the new ones as JSON."""

    table: str
    inserted: int
    updated: int
    deleted: int
    rows: Sequence[str] = field(default=())


def counts(connection: BaseDatabaseWrapper) -> Counts:
    """Rows inserted, updated and deleted by table; only differences of it mean anything."""
    with connection.cursor() as cursor:
        cursor.execute(COUNTS)
        return {table: tuple(numbers) for table, *numbers in cursor.fetchall()}


def written_since(
    connection: BaseDatabaseWrapper, before: Counts, *, rows: int
) -> list[TableChange]:
    """The tables written in this transaction, each with up to `rows` of its new row versions.

    `before` are the counts at its beginning. It should be REPEATABLE READ, or rows of other
    transactions may be among those shown.
    """
    changes = []
    for table, after in counts(connection).items():
        earlier = before.get(table, (0, 0, 0))
        inserted, updated, deleted = (a - b for a, b in zip(after, earlier, strict=True))
        if inserted or updated or deleted:
            with connection.cursor() as cursor:
                shown = _rows(cursor, table, rows)
            changes.append(TableChange(table, inserted, updated, deleted, shown))
    return changes


def _rows(cursor: Any, table: str, limit: int) -> list[str]:
    parts = [part.strip('"') for part in table.split(".")]
    query = ROWS.format(table=sql.Identifier(*parts), limit=sql.Literal(limit))
    cursor.execute(query.as_string())
    return [row for (row,) in cursor.fetchall()]
