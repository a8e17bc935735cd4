"""The parameters of an archive: what goes, of which age, by which rule of the cleanup."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from spark_jobs.parameters import JobParameters
from spark_jobs.tables.masking import Masking


class ArchivedKind(StrEnum):
    """The kind of thing that is archived."""

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
class ArchiveParameters(JobParameters):
    """The rows to archive: everything of a kind from before `before`, by the rule's moment `at`.

    Both are ISO texts. `folder` has a folder for each kind. Messages go by day and have no rule.
    `installation` tells its unfinished files from those of others that archive there, too; runs
    that version 0.1 asked for have none. Of a `masked` archive `masking` are the rules whose values
    are hidden in its files.
    """

    JOB: ClassVar[str] = "archive"
    kind: ArchivedKind
    folder: str
    at: str
    before: str
    rule: Rule | None = None
    installation: str = ""
    masked: bool = False
    masking: tuple[Masking, ...] = ()

    def check(self) -> None:
        """Raise JobError for what does not go together."""
        for text in (self.at, self.before):
            try:
                datetime.fromisoformat(text)
            except ValueError as e:
                raise self.bad(str(e)) from e
        if (self.rule is None) != (self.kind is ArchivedKind.MESSAGES):
            raise self.bad(f"the rule of {self.kind} is missing, or they have none")
