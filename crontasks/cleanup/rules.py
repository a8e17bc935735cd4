"""A rule of the cleanup: which rows are over, which are spared, and how they are removed.

The condition is built in one place, for counting and removing: simulations tell what runs do.
"""

from dataclasses import dataclass
from typing import Final

# The moment a rule judges by: a run's beginning, or a moment that is yet to come.
AT: Final = "%(at)s::timestamptz"


@dataclass(frozen=True, slots=True)
class Spared:
    """Rows that stay, and why, as a condition over the rule's source."""

    why: str
    condition: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One table's rule. All texts are SQL over `source`, where the table is called t.

    `due` holds {at} where the moment belongs and may name parameters as %(name)s. `spared` are
    rows that are due and stay all the same; `kept` tells people what is not due. `along` are
    tables whose rows go with theirs, `loosened` those that only forget them: (table, column that
    refers to the key). `kept_apart` are tables whose rows stay without theirs: (table, column,
    SQL that writes down what they need of %(keys)s). `days` names the parameter that says how long
    rows are kept, or else `keeps` tells it.
    """

    name: str
    title: str
    what: str
    source: str
    due: str
    since: str
    key: str = "t.id"
    status: str = "''"
    size: str = "pg_column_size(t.*)"
    order: str = "t.id"
    spared: tuple[Spared, ...] = ()
    kept: tuple[Spared, ...] = ()
    along: tuple[tuple[str, str], ...] = ()
    loosened: tuple[tuple[str, str], ...] = ()
    kept_apart: tuple[tuple[str, str, str], ...] = ()
    days: str = ""
    keeps: str = ""

    @property
    def table(self) -> str:
        return self.source.split()[0]

    def is_due(self, at: str = AT) -> str:
        return f"({self.due.format(at=at)})"

    def condition(self, at: str = AT) -> str:
        """Select what is removed at that moment: due, and spared by nothing."""
        return " AND ".join([self.is_due(at), *(f"NOT ({rows.condition})" for rows in self.spared)])

    def pick(self) -> str:
        """SQL: the next %(chunk)s rows to remove, as key and status, locked."""
        return f"""
            SELECT {self.key}, {self.status} FROM {self.source} WHERE {self.condition()}
            ORDER BY {self.order} LIMIT %(chunk)s FOR UPDATE OF t SKIP LOCKED"""

    def removals(self) -> list[str]:
        """SQL: take picked rows away, %(keys)s, with what goes along."""
        column = self.key.removeprefix("t.")
        return [
            *(statement for _, _, statement in self.kept_apart),
            *(_loosened(table, refers) for table, refers in self.loosened),
            *(_removed(table, refers) for table, refers in self.along),
            _removed(self.table, column),
        ]


def _removed(table: str, column: str) -> str:
    return f"DELETE FROM {table} WHERE {column} = ANY(%(keys)s)"


def _loosened(table: str, column: str) -> str:
    return f"UPDATE {table} SET {column} = NULL WHERE {column} = ANY(%(keys)s)"


def older_than(column: str, parameter: str) -> str:
    """A moment lies so many days back; a parameter that is empty keeps for ever."""
    return f"{column} < {{at}} - make_interval(days => %({parameter})s::int)"
