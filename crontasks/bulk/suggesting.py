"""Suggests where each column of a file belongs in the documents of a structure. Pure.

By name: what a key path, the version path or the schema calls it, without regard to capitals and
signs. What nothing names keeps its own name, in small letters where the structure has only those.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

# A path that is a place to write to: members alone, no index and no search.
PLAIN: Final = re.compile(r"\$((?:\.[A-Za-z_][\w-]*)+)", re.ASCII)
SIGNS: Final = re.compile(r"[^a-z0-9]")
UNFIT: Final = re.compile(r"[^\w-]+")
DEPTH: Final = 5
KINDS: Final[Mapping[str, str]] = {
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
    "object": "json",
    "array": "json",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value may stand in a document: names with dots between them."""

    name: str
    kind: str = "text"
    required: bool = False


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a column may become; an empty place leaves it out."""

    column: str
    place: str
    kind: str
    required: bool


def places(key_paths: Sequence[str], version_path: str, schema: Any) -> list[Place]:
    """Every place that a structure names: the key's are required."""
    found = {place.name: place for place in _of_schema(schema, "", DEPTH, needed=True)}
    for path, is_key in [*((path, True) for path in key_paths), (version_path, False)]:
        plain = PLAIN.fullmatch(path)
        if plain is not None:
            name = plain[1].removeprefix(".")
            known = found.get(name, Place(name))
            found[name] = Place(name, known.kind, known.required or is_key)
    return list(found.values())


def suggest(columns: Sequence[str], known: Sequence[Place]) -> list[Suggestion]:
    """One for each column, in their order; no place is suggested twice."""
    taken: set[str] = set()
    is_small = bool(known) and all(place.name == place.name.lower() for place in known)
    found = []
    for column in columns:
        place = _match(column, known, taken)
        if place is None:
            place = Place(_own(column, taken, is_small=is_small))
        taken.add(place.name)
        found.append(Suggestion(column, place.name, place.kind, place.required))
    return found


def _match(column: str, known: Sequence[Place], taken: set[str]) -> Place | None:
    """The place of this name; else the one whose last part is called so."""
    wanted = SIGNS.sub("", column.lower())
    if not wanted:
        return None
    for called in (_whole, _last):
        for place in known:
            if place.name not in taken and SIGNS.sub("", called(place.name).lower()) == wanted:
                return place
    return None


def _whole(name: str) -> str:
    return name


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _own(column: str, taken: set[str], *, is_small: bool) -> str:
    """A name that the column may have in the document; empty where that is another one's."""
    name = UNFIT.sub("_", column.strip()).strip("_")
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


def _kind(schema: Mapping[str, Any]) -> str:
    said = schema.get("type")
    kinds = [one for one in said if one != "null"] if isinstance(said, list) else [said]
    if kinds == ["string"] and schema.get("format") == "date":
        return "date"
    return KINDS.get(str(kinds[0]), "text") if len(kinds) == 1 else "text"
