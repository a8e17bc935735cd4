"""The tables of a run's own, which keep what its tasks made until all of it is applied or sent.

A task's part is staged in one transaction that also says so: whoever comes again, after a crash or
because a task was tried twice, holds the same lock, finds it done and does nothing.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql

Session = psycopg.Connection[Any]
# A row's place in its run: the part's number, and the row's within it.
PLACES_BITS: Final = 32


class Stage:
    """The tables of one run: `PARTS` are what they are called behind the run's own name.

    `NAME` is what the sessions of its tasks are called.
    """

    NAME: ClassVar[str]
    PARTS: ClassVar[tuple[str, ...]]

    def __init__(self, run: str) -> None:
        self.run = run
        self.name = f"bulk_{UUID(run).hex}"
        self._names = {part: self.named(part) for part in self.PARTS}

    def named(self, part: str) -> sql.Identifier:
        """The name of a table or an index of this run."""
        return sql.Identifier(f"{self.name}_{part}")

    def sql(self, text: LiteralString, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self._names, **more)

    def drop(self, session: Session) -> None:
        """All of it in one statement: what is half gone would be staged twice."""
        names = sql.SQL(", ").join(self._names.values())
        session.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(names))

    def hold(self, session: Session, number: int) -> None:
        """Keep a part to this transaction: others who are about to stage it wait."""
        session.execute("SELECT pg_advisory_xact_lock(%s)", [lock_number(self.run, number)])


def lock_number(run: str, number: int) -> int:
    digest = hashlib.blake2b(f"{run}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, signed=True)


def places(number: int) -> tuple[int, int]:
    """The first place of a part's rows, and the first behind them."""
    return number << PLACES_BITS, (number + 1) << PLACES_BITS


def copy_rows(session: Session, into: sql.Composed, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows into a table as they come; how many they were."""
    count = 0
    with session.cursor() as cursor, cursor.copy(into) as copy:
        for row in rows:
            copy.write_row(row)
            count += 1
    return count
