"""Questions to a database that may be away for a moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg


@dataclass(frozen=True, slots=True)
class Look:
    """Asks on a new session each time: the last one may not have outlived a fault."""

    database_url: str

    def rows(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]] | None:
        """The rows; None while the database does not answer."""
        try:
            with psycopg.connect(self.database_url, autocommit=True, connect_timeout=3) as session:
                return session.execute(sql, parameters).fetchall()
        except psycopg.OperationalError:
            return None

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """The first value; None also where there is no row."""
        rows = self.rows(sql, parameters)
        return rows[0][0] if rows else None
