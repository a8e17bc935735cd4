"""From a row to the document that would be stored, or to the reason why it cannot be."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from integration.delivery.policy.failure import Failure
from integration.documents.exact_json import encode
from integration.documents.structures import plan_for
from integration.envelope import Flaw as DocumentFlaw
from integration.envelope.json_text import parse_json
from spark_jobs.imports.parameters import Column, Format, ImportParameters, Kind
from spark_jobs.imports.reading import Flaw, Row
from spark_jobs.problems import JobError

MAX_DEPTH: Final = 100
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d{0,307})", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,200})(?:\.\d{1,100})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# What a text becomes that is not of its column's kind; None is a value.
WRONG: Final = object()
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


class Document(NamedTuple):
    """What is stored: JSON text, its key, and its version where the structure has a path for it."""

    text: str
    key: str
    version: Decimal | None


class Rejected(NamedTuple):
    """A row that is not stored.

    `payload` is what a person mends: the document as far as it goes, or the row itself where it
    could not be taken apart.
    """

    flaw: Flaw
    payload: bytes


class Mapper:
    """Maps the rows of one run. `names` are the columns of the source, in their order.

    Raises JobError: UNKNOWN_COLUMN for a column that the source does not have, COLUMN_TWICE for
    one that it has twice.
    """

    def __init__(self, parameters: ImportParameters, names: Sequence[str]) -> None:
        self._plan = plan_for(parameters.structure)
        self._is_json = parameters.format is Format.JSON_LINES
        self._columns = [(_place(one, names), one) for one in parameters.columns]

    def map(self, row: Row) -> Document | Rejected:
        if row.flaw is not None:
            return Rejected(row.flaw, row.raw)
        if self._is_json:
            return self._json(row)
        body, flaw = self._body(row.values)
        return Rejected(flaw, encode(body).encode()) if flaw else self._judged(body, encode(body))

    def _json(self, row: Row) -> Document | Rejected:
        body = parse_json(row.text, MAX_DEPTH)
        if isinstance(body, DocumentFlaw):
            return Rejected(Flaw(body.code, f"{body.message} {body.hint}"), row.raw)
        if not isinstance(body, dict):
            flaw = Flaw("NO_OBJECT", "The line is valid JSON, but no object.")
            return Rejected(flaw, row.raw)
        return self._judged(body, row.text.strip().removeprefix("\ufeff"))

    def _judged(self, body: Mapping[str, Any], text: str) -> Document | Rejected:
        try:
            found = self._plan.read(body)
        except Exception as e:  # noqa: BLE001 - whatever a schema stumbles over costs its row
            flaw = Flaw("UNJUDGED", f"The structure cannot judge it: {type(e).__name__}.")
            return Rejected(flaw, text.encode())
        if isinstance(found, Failure):
            return Rejected(Flaw(found.code, found.text), text.encode())
        key, version = found
        return Document(text, key, version)

    def _body(self, values: Sequence[str]) -> tuple[dict[str, Any], Flaw | None]:
        """The document, and the first thing wrong with it; what is wrong stays in as its text."""
        body: dict[str, Any] = {}
        first: Flaw | None = None
        for place, column in self._columns:
            text = values[place]
            if not text:
                if column.required and first is None:
                    first = Flaw("MISSING_VALUE", f"{column.source} is empty.")
                continue
            value: Any = text
            if column.kind is not Kind.TEXT:
                value = _KINDS[column.kind](text)
                if value is WRONG:
                    value = text
                    told = f"{column.source} is {text[:80]!r}, and should be {column.kind}."
                    first = first or Flaw("WRONG_KIND", told)
            _put(body, column.target, value)
        return body, first


def _place(column: Column, names: Sequence[str]) -> int:
    if names.count(column.source) > 1:
        raise JobError(
            "COLUMN_TWICE",
            f"The source has two columns named {column.source!r}, and one of them is mapped.",
            "Give the columns names of their own in the file's first row.",
        )
    if column.source in names:
        return names.index(column.source)
    raise JobError(
        "UNKNOWN_COLUMN",
        f"The source has no column {column.source!r}; it has {', '.join(names)[:500]}.",
        "Correct the map of the columns.",
    )


def _put(body: dict[str, Any], target: str, value: object) -> None:
    if "." not in target:
        body[target] = value
        return
    *outer, last = target.split(".")
    for name in outer:
        body = body.setdefault(name, {})
    body[last] = value


def _integer(text: str) -> object:
    return int(text) if _INTEGER.fullmatch(text) else WRONG


def _number(text: str) -> object:
    return Decimal(text) if _NUMBER.fullmatch(text) else WRONG


def _date(text: str) -> object:
    try:
        return date.fromisoformat(text).isoformat() if _DATE.fullmatch(text) else WRONG
    except ValueError:
        return WRONG


def _json(text: str) -> object:
    found = parse_json(text, MAX_DEPTH)
    return WRONG if isinstance(found, DocumentFlaw) else found


_KINDS: Final[Mapping[Kind, Callable[[str], object]]] = {
    Kind.INTEGER: _integer,
    Kind.NUMBER: _number,
    Kind.BOOLEAN: lambda text: _TRUTH.get(text.lower(), WRONG),
    Kind.DATE: _date,
    Kind.JSON: _json,
}
