"""Ranges of a table: how it is cut by its blocks, and the condition of a range in SQL."""

from typing import Any, Final

import psycopg

Bound = str | int | None
BLOCKS: Final = 4_096
_SIZE: Final = """
SELECT pg_relation_size(c.oid) / current_setting('block_size')::int FROM pg_class c
WHERE c.oid = to_regclass(%s)"""


def block_cuts(
    session: psycopg.Connection[Any], table: str, most: int
) -> list[tuple[str, int | None, int | None]]:
    """(table, first block, block behind the last) of each range; the last has no end.

    Every row lies in one block, and each range is read without a detour.
    """
    row = session.execute(_SIZE, [table]).fetchone()
    size = int(row[0]) if row else 0
    blocks = max(BLOCKS, -(-size // most))
    cuts: list[int | None] = [*range(0, max(size, 1), blocks)]
    return list(zip([table] * len(cuts), cuts, [*cuts[1:], None], strict=True))


def within(low: Bound, high: Bound, column: str, database_type: str) -> tuple[str, dict[str, Any]]:
    """SQL over `t` for the rows from `low` up to, and without, `high`, and its values.

    None has no end there. Numbers are blocks of the table, texts are values of the column.
    """
    values: dict[str, Any] = {}
    conditions = ["true"]
    for name, bound, sign in (("low", low, ">="), ("high", high, "<")):
        if isinstance(bound, int):
            values[name] = f"({bound},0)"
            conditions.append(f"t.ctid {sign} %({name})s::tid")
        elif bound is not None:
            values[name] = bound
            conditions.append(f"{column} {sign} %({name})s::{database_type}")
    return " AND ".join(conditions), values
