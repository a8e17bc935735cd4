"""The parameters of an import: where rows come from, and what becomes of them."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from integration.paths import BadPath, compile_path
from spark_jobs.errors import JobError
from spark_jobs.parameters import JobParameters
from spark_jobs.topics.target import Target


class Format(StrEnum):
    """The format of the files."""

    CSV = "csv"
    JSON_LINES = "jsonl"
    XML = "xml"
    PARQUET = "parquet"


class ColumnKind(StrEnum):
    """The kind of value that a column's text becomes in the document."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    DATE = "date"
    JSON = "json"


class Duplicates(StrEnum):
    """The row that counts of several with one key; the others are skipped, or rejected.

    The newest is the one with the highest version, of equal ones the last; a row without a version
    is older than all that have one.
    """

    LAST = "last"
    FIRST = "first"
    NEWEST = "newest"
    REJECT = "reject"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the source and its place in the document: names with dots between them.

    Of XML the source is a path within the record, such as LOCATION/SITEID or @id. Without a kind a
    value is what it is there: text in CSV and XML, in Parquet what JSON has of its type.
    """

    source: str
    target: str
    kind: ColumnKind | None = None
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
class ImportParameters(JobParameters):
    """The source of the rows, what becomes of them, and the queue that takes the rejects.

    Documents go into the structure; where there is a `target` they go there, and the structure,
    if its service has one, judges them and makes their keys. `columns` map rows; without a map
    they are documents already, as lines of JSON always are. `record` is the element that is one
    row of XML. `arrival` is the run's arrival number: what was stored later by a message stays.
    """

    JOB: ClassVar[str] = "import"
    source: str
    format: Format
    arrival: int
    rejects_queue: int
    structure: Structure | None = None
    target: Target | None = None
    provider: int | None = None
    columns: tuple[Column, ...] = ()
    duplicates: Duplicates = Duplicates.LAST
    record: str = ""
    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str = '"'
    has_header: bool = True

    @property
    def are_documents(self) -> bool:
        """Return whether rows are documents already."""
        return self.format is Format.JSON_LINES or not self.columns

    @property
    def are_xml(self) -> bool:
        """Return whether documents are XML; else they are JSON."""
        return self.format is Format.XML and self.are_documents

    def check(self) -> None:
        if self.structure is not None:
            _check_paths(self.structure)
        self.check_request()

    def check_request(self) -> None:
        """Raise JobError for what does not go together; a stored structure is sound by itself."""
        if self.structure is not None:
            self._check_structure(self.structure)
        elif self.target is None:
            raise self.bad("it names neither an object structure nor a queue")
        elif self.duplicates is not Duplicates.LAST:
            raise self.bad("no structure makes keys of its rows, so none of them is a duplicate")
        if not self.are_documents:
            self._check_map()
        match self.format:
            case Format.CSV:
                self._check_csv()
            case Format.XML:
                self._check_xml()
            case Format.JSON_LINES | Format.PARQUET:
                pass

    def _check_structure(self, structure: Structure) -> None:
        if self.duplicates is Duplicates.NEWEST and not structure.version_path:
            raise self.bad(f"{structure.name} has no version path that tells the newest row")
        if any(path.startswith("/") is not self.are_xml for path in structure.key_paths):
            made, needed = ("XML", "JSON") if self.are_xml else ("JSON", "XML")
            raise self.bad(
                f"its documents are {made}, and {structure.name} has key paths for {needed}"
            )

    def _check_map(self) -> None:
        targets = [column.target for column in self.columns]
        _check_targets(targets)
        if self.structure is None:
            return
        for target in targets:
            missing = missing_field(self.structure.json_schema, target)
            if missing is not None:
                raise JobError(
                    "UNKNOWN_FIELD",
                    f"The JSON Schema of {self.structure.name} permits no {missing}.",
                    "Correct the map of the columns, or the schema.",
                )

    def _check_xml(self) -> None:
        if not self.record or set(self.record) & set("{}/@: \t\n"):
            raise self.bad("it names no element that is one record, as in ASSET")
        for column in self.columns:
            *outer, last = column.source.split("/")
            names = [*outer, last.removeprefix("@")]
            if not all(names) or any("@" in name for name in names):
                raise self.bad(
                    f"{column.source!r} is no place in a record, as LOCATION/SITEID or @id"
                )

    def _check_csv(self) -> None:
        if not self.columns:
            raise self.bad("a CSV file needs a map of its columns")
        for name, text in (("delimiter", self.delimiter), ("quote", self.quote)):
            if len(text) != 1 or not text.isascii() or text in "\r\n\0":
                raise self.bad(f"the {name} must be one ASCII character")
        if self.delimiter == self.quote:
            raise self.bad("the delimiter and the quote are the same character")
        _check_encoding(self.encoding)


_SIGNS: Final = "\"'\n\r\t,;|a0"
# Bytes mean other characters after an escape.
_SHIFTING: Final = ("iso2022", "hz", "unicode", "raw-unicode", "unicode-escape", "idna", "punycode")
# A line's end is no byte of its own there.
_WIDE: Final = frozenset(
    codecs.lookup(name).name
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-7")
)


def _check_paths(structure: Structure) -> None:
    for path in (*structure.key_paths, *filter(None, [structure.version_path])):
        try:
            compile_path(path)
        except BadPath as e:
            raise ImportParameters.bad(str(e)) from e


def _check_targets(targets: Sequence[str]) -> None:
    for target in targets:
        if not all(target.split(".")):
            raise ImportParameters.bad(f"{target!r} is no place in a document")
        if targets.count(target) > 1:
            raise ImportParameters.bad(f"two columns are mapped to {target}")
        if any(other.startswith(f"{target}.") for other in targets):
            raise ImportParameters.bad(f"{target} is mapped to a value and to an object")


def _check_encoding(name: str) -> None:
    try:
        is_plain = _SIGNS.encode(name) == _SIGNS.encode("ascii")
        encoding = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise ImportParameters.bad(f"there is no encoding {name!r} of texts") from None
    if not is_plain or encoding in _WIDE or encoding.startswith(_SHIFTING):
        raise ImportParameters.bad(f"rows of {name} cannot be told apart by their bytes")


def missing_field(schema: Any, place: str) -> str | None:
    """The part of a place (names with dots between them) that a JSON Schema shuts out, if any.

    Only what stands plainly in it counts, `properties` with no `additionalProperties`: where a
    schema says more by references, conditions or patterns, each row is judged when it is there.

    >>> missing_field({"properties": {"a": {}}, "additionalProperties": False}, "b.c")
    'b'
    """
    passed: list[str] = []
    for name in place.split("."):
        passed.append(name)
        if not isinstance(schema, dict):
            return None
        members = schema.get("properties")
        names = members if isinstance(members, dict) else {}
        if name not in names and schema.get("additionalProperties") is False:
            return None if schema.get("patternProperties") else ".".join(passed)
        schema = names.get(name)
    return None
