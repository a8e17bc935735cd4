"""The map of an import's columns: suggested for a structure, as lines of a job request. Pure.

A suggestion goes by name: what a key path, the version path or the schema calls a column, without
regard to capitals and signs. What nothing names keeps its own name, in small letters where the
structure has only those.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from crontasks.bulk.errors import BulkError
from crontasks.bulk.job_requests.imports import column
from spark_jobs.imports.parameters import Column, ColumnKind

KINDS: Final = tuple(kind.value for kind in ColumnKind)
# A path that is a place to write to: members alone, no index and no search.
PLAIN: Final = re.compile(r"\$((?:\.[A-Za-z_][\w-]*)+)", re.ASCII)
SIGNS: Final = re.compile(r"[^a-z0-9]")
UNFIT: Final = re.compile(r"[^\w-]+")
DEPTH: Final = 5
KINDS_OF_TYPES: Final[Mapping[str, ColumnKind]] = {
    "integer": ColumnKind.INTEGER,
    "number": ColumnKind.NUMBER,
    "boolean": ColumnKind.BOOLEAN,
    "object": ColumnKind.JSON,
    "array": ColumnKind.JSON,
}
# What a column's line cannot hold in its name: it ends the name, or the line.
NEVER: Final = ("=", "\n", "\r")


@dataclass(frozen=True, slots=True)
class Place:
    """A place for a value in a document: names with dots between them."""

    name: str
    kind: ColumnKind = ColumnKind.TEXT
    required: bool = False


def may_be_mapped(name: str) -> bool:
    """Return whether a line can name this column."""
    return bool(name) and name == name.strip() and not any(sign in name for sign in NEVER)


def written(columns: Sequence[Column]) -> str:
    """The lines of a job request; columns without a target are left out."""
    return "\n".join(_line(one) for one in columns if one.target)


def mapped(source: str, target: str, kind: Any, *, required: bool = False) -> Column:
    """A column as a form has it; a kind that there is not is refused by the job."""
    return Column(source=source, target=target, kind=kind or ColumnKind.TEXT, required=required)


def read(text: str) -> Mapping[str, Column]:
    """The inverse of `written`, by source; what is no line of a map is passed over."""
    columns = {}
    for line in text.splitlines():
        with suppress(BulkError):
            one = column(line)
            columns[one.source] = replace(one, kind=one.kind or ColumnKind.TEXT)
    return columns


def _line(one: Column) -> str:
    kind = "" if one.kind == ColumnKind.TEXT else f":{one.kind}"
    return f"{one.source}={one.target}{kind}{'!' if one.required else ''}"


def places(key_paths: Sequence[str], version_path: str, schema: Any) -> list[Place]:
    """Every place that a structure names: the key's are required."""
    known = {place.name: place for place in _of_schema(schema, "", DEPTH, needed=True)}
    for path in [*key_paths, version_path]:
        plain = PLAIN.fullmatch(path)
        if plain is not None:
            name = plain[1].removeprefix(".")
            of_schema = known.get(name, Place(name))
            is_needed = of_schema.required or path in key_paths
            known[name] = Place(name, of_schema.kind, is_needed)
    return list(known.values())


def suggest(names: Sequence[str], known: Sequence[Place]) -> list[Column]:
    """A map of columns of these names; no place is suggested twice, and some are without one."""
    taken: set[str] = set()
    is_small = bool(known) and all(place.name == place.name.lower() for place in known)
    suggested = []
    for name in names:
        place = _match(name, [one for one in known if one.name not in taken])
        if place is None:
            place = Place(_own(name, taken, is_small=is_small))
        taken.add(place.name)
        suggested.append(mapped(name, place.name, place.kind, required=place.required))
    return suggested


def _match(name: str, free: Sequence[Place]) -> Place | None:
    """The place of this name; else the one whose last part is called so."""
    wanted = _plain(name)
    whole = [place for place in free if _plain(place.name) == wanted]
    last = [place for place in free if _plain(place.name.rpartition(".")[2]) == wanted]
    return next(iter(whole + last), None) if wanted else None


def _plain(name: str) -> str:
    return SIGNS.sub("", name.lower())


def _own(column_name: str, taken: set[str], *, is_small: bool) -> str:
    """A name that the column may have in the document; empty where that is another one's."""
    name = UNFIT.sub("_", column_name.strip()).strip("_")
    name = name.lower() if is_small else name
    is_free = all(name != one and not one.startswith(f"{name}.") for one in taken)
    return name if is_free else ""


def _of_schema(schema: Any, before: str, depth: int, *, needed: bool) -> Iterator[Place]:
    members = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(members, Mapping) or not depth:
        return
    listed = schema.get("required")
    required = set(listed) if needed and isinstance(listed, list) else set()
    for name, inner in members.items():
        if not isinstance(inner, Mapping) or "." in str(name):
            continue
        if isinstance(inner.get("properties"), Mapping):
            more = name in required
            yield from _of_schema(inner, f"{before}{name}.", depth - 1, needed=more)
        else:
            yield Place(f"{before}{name}", _kind(inner), name in required)


def _kind(schema: Mapping[str, Any]) -> ColumnKind:
    said = schema.get("type")
    types = [one for one in said if one != "null"] if isinstance(said, list) else [said]
    if types == ["string"] and schema.get("format") == "date":
        return ColumnKind.DATE
    return (
        KINDS_OF_TYPES.get(str(types[0]), ColumnKind.TEXT) if len(types) == 1 else ColumnKind.TEXT
    )
