"""What an import is told: it came as JSON, and is checked before anything is read."""

import codecs
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Final

from integration.paths import BadPath, compile_path
from spark_jobs.problems import JobError


class Format(StrEnum):
    """How the rows lie in their files."""

    CSV = "csv"
    JSON_LINES = "jsonl"


class Kind(StrEnum):
    """What a column's text becomes in the document."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    JSON = "json"


class Duplicates(StrEnum):
    """Which of several rows with one key counts; the others are skipped, or rejected."""

    LAST = "last"
    FIRST = "first"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the source and its place in the document: names with dots between them."""

    source: str
    target: str
    kind: Kind = Kind.TEXT
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The object structure that documents are made for, as it was when the run was asked for."""

    name: str
    key_paths: tuple[str, ...]
    version_path: str = ""
    json_schema: Any = None
    tombstone: str = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportParameters:
    """Where rows come from, what becomes of them, and the queue that takes the rejects.

    `columns` maps CSV; JSON lines are documents already. `arrival` is the run's arrival number:
    what was stored later by a message stays.
    """

    source: str
    format: Format
    structure: Structure
    arrival: int
    rejects_queue: int
    columns: tuple[Column, ...] = ()
    duplicates: Duplicates = Duplicates.LAST
    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str = '"'
    has_header: bool = True

    @staticmethod
    def of(said: Mapping[str, Any]) -> "ImportParameters":
        """Check and read them. Raises JobError BAD_PARAMETERS."""
        known = {field.name for field in fields(ImportParameters)}
        if unknown := sorted(set(said) - known):
            raise bad(f"there is no parameter {unknown[0]!r}")
        try:
            read = ImportParameters(
                **{
                    **said,
                    "format": Format(said["format"]),
                    "structure": Structure(
                        **{
                            **said["structure"],
                            "key_paths": tuple(said["structure"]["key_paths"]),
                        }
                    ),
                    "columns": tuple(_column(one) for one in said.get("columns", ())),
                    "duplicates": Duplicates(said.get("duplicates", Duplicates.LAST)),
                }
            )
        except (KeyError, TypeError, ValueError) as e:
            raise bad(str(e)) from e
        read._check()
        return read

    def _check(self) -> None:
        for path in (*self.structure.key_paths, *filter(None, [self.structure.version_path])):
            try:
                compile_path(path)
            except BadPath as e:
                raise bad(str(e)) from e
        if self.format is Format.CSV:
            self._check_csv()

    def _check_csv(self) -> None:
        if not self.columns:
            raise bad("a CSV file needs a map of its columns")
        _check_targets([column.target for column in self.columns])
        for name, text in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(text) != 1 or not text.isascii() or text in "\r\n\0":
                raise bad(f"the {name} must be one ASCII character")
        if self.delimiter == self.quote:
            raise bad("the delimiter and the quote are the same character")
        _check_encoding(self.encoding)


_SIGNS: Final = "\"'\n\r\t,;|a0"
# Bytes mean other characters after an escape.
_SHIFTING: Final = ("iso2022", "hz", "unicode", "raw-unicode", "unicode-escape", "idna", "punycode")
# A line's end is no byte of its own there.
_WIDE: Final = frozenset(
    codecs.lookup(name).name
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-7")
)


def _check_targets(targets: Sequence[str]) -> None:
    for target in targets:
        if not all(target.split(".")):
            raise bad(f"{target!r} is no place in a document")
        if targets.count(target) > 1:
            raise bad(f"two columns are mapped to {target}")
        if any(other.startswith(f"{target}.") for other in targets):
            raise bad(f"{target} is mapped to a value and to an object")


def _check_encoding(name: str) -> None:
    try:
        is_plain = _SIGNS.encode(name) == _SIGNS.encode("ascii")
        known = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise bad(f"there is no encoding {name!r} of texts") from None
    if not is_plain or known in _WIDE or known.startswith(_SHIFTING):
        raise bad(f"rows of {name} cannot be told apart by their bytes")


def _column(said: Mapping[str, Any]) -> Column:
    return Column(**{**said, "kind": Kind(said.get("kind", Kind.TEXT))})


def bad(why: str) -> JobError:
    return JobError(
        "BAD_PARAMETERS",
        f"The import cannot be run as it is asked for: {why}.",
        "Correct the parameter and start the run again.",
    )
