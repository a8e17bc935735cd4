"""What an archive is told: it came as JSON, and is checked before anything is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from spark_jobs.parameters import Refusal, read, refusal

bad: Final[Refusal] = refusal("archive")


class Kind(StrEnum):
    """What is archived."""

    MESSAGES = "messages"
    FAILURES = "failures"
    RUNS = "runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The cleanup's rule for a table: which of its rows are over, and how they are removed.

    SQL over `source`, where the table is called t; `condition` names the moment %(at)s, and
    `removals` the rows to take away, %(keys)s. `along` are tables whose rows go with them: (table,
    column that refers to the key). It comes from the cleanup, so that both protect the same rows.
    """

    table: str
    source: str
    condition: str
    since: str
    along: tuple[tuple[str, str], ...] = ()
    removals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveParameters:
    """What is archived: everything of a kind from before `before`, by the rule's moment `at`.

    Both are ISO texts. `folder` has a folder for each kind. Messages go by whole days and have no
    rule.
    """

    kind: Kind
    folder: str
    at: str
    before: str
    rule: Rule | None = None

    @staticmethod
    def of(said: Mapping[str, Any]) -> "ArchiveParameters":
        """Check and read them. Raises JobError BAD_PARAMETERS."""
        found = read(ArchiveParameters, said, bad)
        for text in (found.at, found.before):
            try:
                datetime.fromisoformat(text)
            except ValueError as e:
                raise bad(str(e)) from e
        if (found.rule is None) != (found.kind is Kind.MESSAGES):
            raise bad(f"the rule of {found.kind} is missing, or they have none")
        return found
