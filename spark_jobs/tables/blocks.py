"""Cuts a table by its blocks: every row lies in one, and each range is read without a detour."""

from typing import Any, Final

import psycopg

BLOCKS: Final = 4_096
_SIZE: Final = """
SELECT pg_relation_size(c.oid) / current_setting('block_size')::int FROM pg_class c
WHERE c.oid = to_regclass(%s)"""


def block_cuts(
    session: psycopg.Connection[Any], table: str, most: int
) -> list[tuple[str, int | None, int | None]]:
    """(table, first block, block behind the last) of each range; the last has no end."""
    found = session.execute(_SIZE, [table]).fetchone()
    size = int(found[0]) if found else 0
    blocks = max(BLOCKS, -(-size // most))
    cuts: list[int | None] = [*range(0, max(size, 1), blocks)]
    return list(zip([table] * len(cuts), cuts, [*cuts[1:], None], strict=True))
