"""The quick way from a row of text to its document, for rows with nothing wrong with them.

A plan of the columns is made once; no document is built to be written down again. It answers for
what it is sure of, and leaves every other row to `mapping`, which is held to give the same.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import lru_cache
from json import encoder
from typing import Final, NamedTuple

from integration.paths import MAX_KEY_BYTES
from spark_jobs.imports.parameters import Column, ColumnKind, Format, ImportParameters

# JSON's writing of a text, without escaping what is not ASCII.
_text: Final[Callable[[str], str]] = encoder.encode_basestring
_MEMBER: Final = re.compile(r"\$\.([A-Za-z_]\w*)", re.ASCII)
# Kept below what `mapping` takes: a number that is written differently goes the other way.
_INTEGER: Final = re.compile(r"0|-?[1-9]\d{0,307}", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,200})(?:\.(?!0{6})\d{1,100})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TRUTH: Final = {"true": "true", "1": "true", "yes": "true"} | dict.fromkeys(
    ("false", "0", "no"), "false"
)


class _Way(NamedTuple):
    """A column's place in the row, its name as JSON has it, and what writes its value."""

    place: int
    name: str
    write: Callable[[str], str | None]
    is_required: bool


class Quick(NamedTuple):
    """The document and the key of a row, or None where `mapping` has to say."""

    ways: Sequence[_Way]
    keys: Sequence[int]

    def document(self, values: Sequence[str]) -> tuple[str, str] | None:
        parts = []
        for place, name, write, is_required in self.ways:
            value = values[place]
            if value:
                written = write(value)
                if written is None:
                    return None
                parts.append(name + written)
            elif is_required:
                return None
        key = self._key(values)
        return None if key is None else (f"{{{','.join(parts)}}}", key)

    def _key(self, values: Sequence[str]) -> str | None:
        parts = [values[place] for place in self.keys]
        if not all(map(str.strip, parts)):
            return None
        key = parts[0] if len(parts) == 1 else f"[{','.join(map(_text, parts))}]"
        return key if len(key) * 4 <= MAX_KEY_BYTES else None


def quick(parameters: ImportParameters, names: Sequence[str]) -> Quick | None:
    """The quick way, where the map is flat, keys are texts, and nothing else judges the rows."""
    structure = parameters.structure
    if parameters.are_documents or parameters.format is Format.PARQUET or structure is None:
        return None
    if structure.json_schema is not None or structure.version_path:
        return None
    by_target = {column.target: column for column in parameters.columns}
    keys = [_key_column(path, by_target) for path in structure.key_paths]
    is_flat = not any("." in target for target in by_target)
    if not is_flat or any(column.kind is ColumnKind.JSON for column in parameters.columns):
        return None
    places = {name: place for place, name in enumerate(names)}
    ways = [
        _Way(places[c.source], f"{_text(c.target)}:", _WRITERS[c.kind], c.required)
        for c in parameters.columns
    ]
    key_places = [places[column.source] for column in keys if column is not None]
    return Quick(ways, key_places) if len(key_places) == len(keys) else None


def _key_column(path: str, by_target: Mapping[str, Column]) -> Column | None:
    """The column that a key path finds, if it is one of texts."""
    member = _MEMBER.fullmatch(path)
    column = by_target.get(member[1]) if member else None
    return column if column is not None and column.kind in {None, ColumnKind.TEXT} else None


def _integer(text: str) -> str | None:
    return text if _INTEGER.fullmatch(text) else None


def _number(text: str) -> str | None:
    return text if _NUMBER.fullmatch(text) else None


# Dates come again and again.
@lru_cache(maxsize=10_000)
def _date(text: str) -> str | None:
    if not _DATE.fullmatch(text):
        return None
    try:
        date.fromisoformat(text)
    except ValueError:
        return None
    return f'"{text}"'


_WRITERS: Final[Mapping[ColumnKind | None, Callable[[str], str | None]]] = {
    None: _text,
    ColumnKind.TEXT: _text,
    ColumnKind.INTEGER: _integer,
    ColumnKind.NUMBER: _number,
    ColumnKind.BOOLEAN: lambda text: _TRUTH.get(text.lower()),
    ColumnKind.DATE: _date,
}
