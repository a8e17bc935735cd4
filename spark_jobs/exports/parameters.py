"""The parameters of an export: which rows, as what, and where they go."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final

from integration.paths import plain_steps
from spark_jobs.parameters import JobParameters
from spark_jobs.tables.masking import Masking
from spark_jobs.topics.target import Target

# PostgreSQL takes no more columns, and nobody reads as many.
MOST_COLUMNS: Final = 500


class What(StrEnum):
    """The things that are exported."""

    DOCUMENTS = "documents"
    MESSAGES = "messages"


class Format(StrEnum):
    """The format of the rows."""

    JSON_LINES = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


class Formulas(StrEnum):
    """The treatment of CSV values that a spreadsheet would take for formulas."""

    EXACT = "exact"
    QUOTED = "quoted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One column: its name, and where its value is, a field's name or a JSONPath."""

    name: str
    source: str

    @property
    def is_path(self) -> bool:
        return self.source.startswith("$")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportParameters(JobParameters):
    """The rows to export, as what, and the folder that takes the run's own folder.

    Where there is a `target` they become messages of that queue instead, each with the payload that
    its line of JSON would be.

    `masking` are the rules whose values are hidden in the files, `hidden` the fields that are
    hidden whole because they may hold such a value.

    Times are ISO texts, empty where nothing limits. Of documents: `structure` is its number and
    `structure_name` its name; `where` is (path, value). Of messages: `queues` are numbers, none
    for all.
    """

    JOB: ClassVar[str] = "export"
    what: What
    format: Format
    folder: str
    columns: tuple[Wanted, ...] = ()
    since: str = ""
    until: str = ""
    structure: int = 0
    structure_name: str = ""
    key: str = ""
    where: tuple[str, str] | None = None
    deleted: bool = False
    queues: tuple[int, ...] | None = None
    service: str = ""
    state: str = ""
    payload: bool = False
    delimiter: str = ","
    formulas: Formulas = Formulas.EXACT
    target: Target | None = None
    provider: int | None = None
    masking: tuple[Masking, ...] = ()
    hidden: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise JobError for what does not go together."""
        _check_names([column.name for column in self.columns])
        for column in self.columns:
            if column.is_path:
                steps_of(column.source)
        if self.where is not None:
            steps_of(self.where[0])
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in '\r\n\0"':
            raise self.bad("the delimiter must be one ASCII character, and no quote")
        if self.target is not None and self.format is not Format.JSON_LINES:
            raise self.bad("the messages of a queue are JSON, and no rows of a file")
        if self.what is What.DOCUMENTS and self.deleted and self._is_bare:
            raise self.bad(
                "a deleted document has no line of its own: name columns, such as key=key and "
                "deleted=deleted"
            )

    @property
    def _is_bare(self) -> bool:
        """Return whether each line is the document itself."""
        return self.format is Format.JSON_LINES and not self.columns


def steps_of(path: str) -> tuple[str | int, ...]:
    """Names and places of a path. Raises JobError BAD_PARAMETERS for any other path."""
    steps = plain_steps(path)
    if steps is None:
        raise ExportParameters.bad(
            f"{path!r} is no path of names and places, such as $.site.siteid or $.lines[0].item"
        )
    return steps


def _check_names(names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise ExportParameters.bad(f"there are more than {MOST_COLUMNS} columns")
    folded = set()
    for name in names:
        if not name.strip() or "\n" in name or "\r" in name:
            raise ExportParameters.bad(f"{name!r} is no name of a column")
        # Readers of Parquet do not tell them apart by case.
        if name.casefold() in folded:
            raise ExportParameters.bad(f"two columns are named {name!r}")
        folded.add(name.casefold())
