"""The operations of the API as commands, from the OpenAPI document that comes with this package."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

DOCUMENT: Final = Path(__file__).with_name("openapi.json")
# What a group is about: its commands need not say it again.
NOUNS: Final[Mapping[str, frozenset[str]]] = {
    "failures": frozenset({"failure", "failures"}),
    "operations": frozenset({"operation", "operations"}),
    "queues": frozenset({"queue", "queues"}),
    "outbox": frozenset({"row", "rows"}),
    "endpoints": frozenset({"endpoint", "endpoints"}),
    "messages": frozenset({"message", "messages"}),
    "notices": frozenset({"notice", "notices"}),
    "cron": frozenset({"instance", "instances"}),
    "bulk": frozenset({"run", "runs"}),
    "setup": frozenset({"row", "rows"}),
    "configuration": frozenset({"configuration"}),
    "changes": frozenset({"change", "changes"}),
}
# Words of the console for what the API calls by another name.
ALIASES: Final[Mapping[str, str]] = {"fingerprint": "cause", "interface": "service"}
# The list in an answer, and where to go on from.
PLACES: Final = ("at", "after", "before")
NEXT: Final = "next"
PLACED: Final = frozenset({NEXT, "previous"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One parameter, or member of a body; `kind`: string, integer, number, boolean or json."""

    name: str
    kind: str
    text: str
    is_required: bool = False
    choices: tuple[str, ...] = ()
    default: object = None

    @property
    def options(self) -> tuple[str, ...]:
        """How it is written on the command line; the console's word first."""
        names = [ALIASES[self.name]] if self.name in ALIASES else []
        return tuple(f"--{name.replace('_', '-')}" for name in [*names, self.name])


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One command: its group and name, and how it is asked for.

    `file` is the media type of a body that is a file, else empty. `acts`: it takes a key.
    """

    group: str
    name: str
    method: str
    path: str
    text: str
    parts: tuple[Field, ...]
    query: tuple[Field, ...]
    body: tuple[Field, ...]
    file: str
    acts: bool
    rights: tuple[str, ...]

    @property
    def command(self) -> str:
        """Its group and name, as in “failures list”."""
        return f"{self.group} {self.name}"

    @property
    def words(self) -> str:
        """What is typed for it."""
        return f"sluice {self.command}"

    @property
    def place(self) -> str:
        """The parameter that names a place in its list; empty where it has no pages."""
        names = {field.name for field in self.query}
        return next((name for name in PLACES if name in names), "")


@cache
def every() -> tuple[Operation, ...]:
    """All operations, by group and name."""
    document: dict[str, Any] = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return tuple(sorted(_read(document), key=lambda one: (one.group, one.name)))


def _read(document: Mapping[str, Any]) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, said in methods.items():
            group, _, rest = said["operationId"].partition("_")
            content = said.get("requestBody", {}).get("content", {})
            media = next(iter(content), "")
            is_json = media == "application/json"
            schema = _resolved(document, content[media]["schema"]) if is_json else {}
            fields = [_parameter(document, one) for one in said.get("parameters", ())]
            yield Operation(
                group=group,
                name=_command(group, rest),
                method=method.upper(),
                path=path,
                text=said.get("description") or said.get("summary", ""),
                parts=tuple(field for place, field in fields if place == "path"),
                query=tuple(field for place, field in fields if place == "query"),
                body=tuple(_members(document, schema)),
                file="" if is_json else media,
                acts=bool(said.get("x-acts")),
                rights=tuple(said.get("x-rights", ())),
            )


def _command(group: str, words: str) -> str:
    verb, _, noun = words.rpartition("_")
    kept = verb if verb and noun in NOUNS.get(group, ()) else words
    return kept.replace("_", "-")


def _parameter(document: Mapping[str, Any], said: Mapping[str, Any]) -> tuple[str, Field]:
    text, is_required = said.get("description", ""), bool(said.get("required"))
    field = _field(document, said["name"], said["schema"], text=text, is_required=is_required)
    return said["in"], field


def _members(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, said in schema.get("properties", {}).items():
        yield _field(document, name, said, is_required=name in required)


def _field(
    document: Mapping[str, Any],
    name: str,
    said: Mapping[str, Any],
    *,
    is_required: bool,
    text: str = "",
) -> Field:
    schema = _resolved(document, said)
    # What may be left out is written as a choice with null.
    chosen = [_resolved(document, one) for one in schema.get("anyOf", ())]
    kinds = [one for one in chosen if one.get("type") != "null"]
    single = kinds[0] if len(kinds) == 1 else {} if kinds else schema
    kind = str(single.get("type", "json"))
    return Field(
        name=name,
        kind=kind if kind in {"string", "integer", "number", "boolean"} else "json",
        text=text or said.get("description") or schema.get("description", ""),
        is_required=is_required,
        choices=tuple(str(one) for one in single.get("enum", ())),
        default=said.get("default"),
    )


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself, where it is only referred to, or wrapped for the sake of a default."""
    wrapped = schema.get("allOf", ())
    if len(wrapped) == 1:
        return _resolved(document, wrapped[0])
    refers: str = schema.get("$ref", "")
    if not refers:
        return schema
    return _resolved(document, document["components"]["schemas"][refers.rpartition("/")[2]])
