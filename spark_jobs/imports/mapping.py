"""The way from a row to the document that would be stored, or to the reason why none can be."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from integration.documents.exact_json import encode
from integration.documents.structures import deletes_its_object, plan_for
from integration.envelope import Flaw as DocumentFlaw
from integration.envelope.json_text import parse_json
from integration.envelope.xml_text import parse_xml
from integration.policy.failure import Failure
from spark_jobs.imports.parameters import Column, ColumnKind, Format, ImportParameters
from spark_jobs.imports.quick_mapping import quick
from spark_jobs.imports.rows import (
    LARGEST_ROW_CHARACTERS,
    NUL,
    Flaw,
    Row,
    new_tuple,
    place_of,
    too_long,
)

MAX_DEPTH: Final = 100
_INTEGER: Final = re.compile(r"-?(?:0|[1-9]\d{0,307})", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,200})(?:\.\d{1,100})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# No text that can be stored begins so.
_SIGN: Final = "\0"
# The value of a text that is not of its column's kind; None is a value.
WRONG: Final = object()
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NO_NUMBER: Final = Flaw(
    "NOT_A_NUMBER", "It has a value that JSON cannot hold: NaN, an infinity, or such a year."
)
_NO_TEXT: Final = Flaw("BAD_ENCODING", "It has bytes that are no UTF-8.")


class Document(NamedTuple):
    """The text that is stored or sent: JSON or XML.

    Its key, and its version where the structure has a path for it; without a structure neither.
    `deletes` where it is a message that deletes its object, which is not stored.
    """

    text: str
    key: str | None
    version: Decimal | None
    deletes: bool = False


class Rejected(NamedTuple):
    """A row that is not stored.

    `payload` is what a person mends: the document as far as it goes, or the row itself where it
    could not be taken apart. `shown` is the row's own text.
    """

    flaw: Flaw
    payload: bytes
    shown: str


class _Way(NamedTuple):
    """A way from a place among a row's values to one in the document."""

    place: int
    column: Column
    outer: Sequence[str]
    last: str


class _Body(NamedTuple):
    """A document, and the first thing wrong with it; what is wrong stays in as its text.

    In place of texts that should be JSON it has signs: `broken` are the texts by their signs.
    """

    members: dict[str, Any]
    flaw: Flaw | None
    broken: Mapping[str, str]


class Mapper:
    """Maps the rows of one run. `names` are the columns of the source, in their order.

    Raises JobError: UNKNOWN_COLUMN for a column that the source does not have, COLUMN_TWICE for
    one that it has twice.
    """

    def __init__(self, parameters: ImportParameters, names: Sequence[str]) -> None:
        self._plan = None if parameters.structure is None else plan_for(parameters.structure)
        self.names, self.parameters = names, parameters
        self._is_typed = parameters.format is Format.PARQUET
        self._ways = [_way(column, names) for column in parameters.columns]
        if self._is_typed and not self._ways:
            self._ways = [_itself(place, name) for place, name in enumerate(names)]
        self._quick = quick(parameters, names)
        if parameters.are_xml:
            self._make: Callable[[Row], Document | Rejected] = self._xml
        elif self._is_typed:
            self._make = self._typed
        else:
            self._make = self._json if parameters.are_documents else self._mapped

    def map(self, row: Row) -> Document | Rejected:
        if row.flaw is None:
            return self._make(row)
        if row.values:
            body, _, broken = self._body(row.values)
            return Rejected(row.flaw, _with(encode(body), broken).encode(), row.text)
        return Rejected(row.flaw, row.raw, row.text)

    def _mapped(self, row: Row) -> Document | Rejected:
        document = None if self._quick is None else self._quick.document(row.values)
        if document is None:
            return self._plainly(row)
        return new_tuple(Document, (*document, None, False))

    def _plainly(self, row: Row) -> Document | Rejected:
        body, flaw, broken = self._body(row.values)
        text = _with(encode(body), broken)
        return Rejected(flaw, text.encode(), row.text) if flaw else self._judged(body, text, row)

    def _json(self, row: Row) -> Document | Rejected:
        body = parse_json(row.text, MAX_DEPTH)
        if isinstance(body, DocumentFlaw):
            return _flawed(body, row)
        if not isinstance(body, dict):
            flaw = Flaw("NO_OBJECT", "The line is valid JSON, but no object.")
            return Rejected(flaw, row.raw, row.text)
        return self._judged(body, row.text.strip().removeprefix("\ufeff"), row)

    def _xml(self, row: Row) -> Document | Rejected:
        body = parse_xml(row.text.encode(), MAX_DEPTH, is_utf8=True)
        if isinstance(body, DocumentFlaw):
            return _flawed(body, row)
        became = self._judged(body, row.text, row)
        if isinstance(became, Rejected) or self.parameters.target is not None:
            return became
        return became._replace(deletes=deletes_its_object(body))

    def _typed(self, row: Row) -> Document | Rejected:
        """Map a row of Parquet: values that are no texts, and that no file of text could have."""
        body, flaw, broken = self._body(row.values)
        try:
            text = encode(body)
        except ValueError:
            flaw = flaw or _NO_NUMBER
            text = encode(_writable(body))
        if "\\u0000" in text and _has_nul(body):
            flaw = flaw or NUL
        text = _with(text, broken)
        if not text.isascii() and any("\udc80" <= sign <= "\udcff" for sign in text):
            flaw = flaw or _NO_TEXT
        if len(text) > LARGEST_ROW_CHARACTERS:
            flaw, text = too_long(row.line, text, len(text))[3], text[:LARGEST_ROW_CHARACTERS]
        if flaw is None:
            return self._judged(body, text, row)
        return Rejected(flaw, text.encode("utf-8", "surrogateescape"), self._shown(row))

    def _judged(self, body: object, text: str, row: Row) -> Document | Rejected:
        if self._plan is None:
            return Document(text, None, None)
        try:
            result = self._plan.read(body)
        except Exception as e:  # noqa: BLE001 - whatever a schema stumbles over costs its row
            flaw = Flaw("UNJUDGED", f"The structure cannot judge it: {type(e).__name__}.")
            return Rejected(flaw, text.encode(), self._shown(row))
        if isinstance(result, Failure):
            return Rejected(Flaw(result.code, result.text), text.encode(), self._shown(row))
        key, version = result
        return Document(text, key, version)

    def _shown(self, row: Row) -> str:
        """A row's own text; of Parquet, which has none, its values under their names."""
        if row.text or not self._is_typed:
            return row.text
        return encode(_writable(dict(zip(self.names, row.values, strict=True))))

    def _body(self, values: Sequence[Any]) -> _Body:
        body: dict[str, Any] = {}
        broken: dict[str, str] = {}
        first: Flaw | None = None
        for place, column, outer, last in self._ways:
            value = values[place]
            if value is None or (value == "" and (column.required or not self._is_typed)):
                if column.required and first is None:
                    first = Flaw("MISSING_VALUE", f"{column.source} is empty.")
                continue
            if column.kind is not None:
                text = value if type(value) is str else _text_of(value)
                value = text if column.kind is ColumnKind.TEXT else _KINDS[column.kind](text)
                if value is WRONG:
                    # Without the value: the beginning of one that is masked would not be known.
                    first = first or Flaw("WRONG_KIND", f"{column.source} should be {column.kind}.")
                    value = text
                    if column.kind is ColumnKind.JSON:
                        value = f"{_SIGN}{place}"
                        broken[value] = text
            (_within(body, outer) if outer else body)[last] = value
        return _Body(body, first, broken)


def _with(document: str, broken: Mapping[str, str]) -> str:
    """The text of a document with what should be JSON, and is not, as it came.

    So nothing can be read, nor stored, before somebody has mended it: inside of a text no rule
    would find what it hides.
    """
    if not broken:
        return document
    text = document
    for sign, value in broken.items():
        text = text.replace(encode(sign), value)
    if isinstance(parse_json(text, MAX_DEPTH), DocumentFlaw):
        return text
    # It ends what it stands in, and goes on: members would be found that nobody mapped.
    for sign in broken:
        document = document.replace(encode(sign), "null")
    return document


def _flawed(flaw: DocumentFlaw, row: Row) -> Rejected:
    return Rejected(Flaw(flaw.code, f"{flaw.message} {flaw.hint}"), row.raw, row.text)


def _way(column: Column, names: Sequence[str]) -> _Way:
    *outer, last = column.target.split(".")
    return _Way(place_of(column.source, names, "The source"), column, outer, last)


def _itself(place: int, name: str) -> _Way:
    """A column whose name is its place, whatever signs it has."""
    return _Way(place, Column(source=name, target=name), (), name)


def _within(body: dict[str, Any], outer: Sequence[str]) -> dict[str, Any]:
    for name in outer:
        body = body.setdefault(name, {})
    return body


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
    parsed = parse_json(text, MAX_DEPTH)
    return WRONG if isinstance(parsed, DocumentFlaw) else parsed


_KINDS: Final[Mapping[ColumnKind, Callable[[str], object]]] = {
    ColumnKind.INTEGER: _integer,
    ColumnKind.NUMBER: _number,
    ColumnKind.BOOLEAN: lambda text: _TRUTH.get(text.lower(), WRONG),
    ColumnKind.DATE: _date,
    ColumnKind.JSON: _json,
}


def _text_of(value: object) -> str:
    """A value as a text column would have it; numbers digit by digit.

    >>> _text_of(Decimal("1E+7"))
    '10000000'
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return encode(_writable(value)) if isinstance(value, dict | list) else str(value)


def _writable(value: Any) -> Any:
    """The same with a text wherever JSON has no such number."""
    if isinstance(value, dict):
        return {name: _writable(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_writable(item) for item in value]
    return str(value) if isinstance(value, Decimal) and not value.is_finite() else value


def _has_nul(value: object) -> bool:
    """Return whether a NUL character is in any text or name of a document."""
    if isinstance(value, dict):
        return any(_has_nul(name) or _has_nul(member) for name, member in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\0" in value
