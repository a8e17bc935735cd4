"""Reads a configuration file: bounded, without aliases or tags, each value with its line.

The file may come from anywhere, so nothing of it is expanded before it has been measured.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Final

import yaml

from crontasks.configfile.problems import ConfigFileError, Mistake

MAX_BYTES: Final = 5_000_000
MAX_EVENTS: Final = 500_000
MAX_DEPTH: Final = 30
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Given:
    """A value as the file has it, and where."""

    line: int
    value: Any


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing of a section: its fields by name."""

    line: int
    values: Mapping[str, Given]


@dataclass(frozen=True, slots=True)
class Document:
    """The sections of a file, each with its line and entries."""

    sections: Mapping[str, tuple[int, tuple[Entry, ...]]]


@dataclass(slots=True)
class _Reader:
    known: tuple[str, ...]
    mistakes: list[Mistake] = field(default_factory=list)
    scalars: Any = field(default_factory=lambda: yaml.SafeLoader(""))

    def refuse(self, line: int, place: str, text: str) -> None:
        self.mistakes.append(Mistake(line, place, text))


def read(content: bytes, sections: tuple[str, ...]) -> Document:
    """Raises ConfigFileError with every mistake of the file's form."""
    text = _decoded(content)
    try:
        _measure(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        line = 1 if mark is None else mark.line + 1
        raise ConfigFileError([Mistake(line, "", f"This is no YAML: {e.problem}.")]) from e
    except yaml.YAMLError as e:
        raise ConfigFileError([Mistake(1, "", f"This is no YAML: {e}.")]) from e
    reader = _Reader(sections)
    document = _document(reader, root)
    if reader.mistakes:
        raise ConfigFileError(reader.mistakes)
    return document


def _decoded(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        why = f"The file has {len(content):,} bytes; at most {MAX_BYTES:,} are read."
        raise ConfigFileError([Mistake(1, "", why)])
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        line = content[: e.start].count(b"\n") + 1
        raise ConfigFileError([Mistake(line, "", "This is not UTF-8.")]) from e


def _measure(text: str) -> None:
    """Refuse what could grow beyond its size: aliases, tags, depth, number of parts."""
    depth = documents = 0
    for number, event in enumerate(yaml.parse(text, Loader=yaml.SafeLoader)):
        line = 1 if event.start_mark is None else event.start_mark.line + 1
        if number > MAX_EVENTS:
            raise ConfigFileError([Mistake(line, "", f"More than {MAX_EVENTS:,} parts.")])
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            why = "Anchors and aliases (& and *) are not used here: write the value out."
            raise ConfigFileError([Mistake(line, "", why)])
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None):
            raise ConfigFileError([Mistake(line, "", "Tags (!) are not used here.")])
        documents += isinstance(event, yaml.DocumentStartEvent)
        if documents > 1:
            raise ConfigFileError([Mistake(line, "", "A file holds one document, without ---.")])
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise ConfigFileError([Mistake(line, "", f"Deeper than {MAX_DEPTH} levels.")])


def _document(reader: _Reader, root: yaml.Node | None) -> Document:
    if not isinstance(root, yaml.MappingNode):
        reader.refuse(1, "", f"Begin with “format: {FORMAT}”, then sections such as “queues:”.")
        return Document({})
    found: dict[str, tuple[int, tuple[Entry, ...]]] = {}
    parts = dict(_members(reader, root, ""))
    lines = {key.value: _line(key) for key, _ in root.value if isinstance(key, yaml.ScalarNode)}
    told = parts.pop("format", None)
    if told is None or _plain(reader, told, "format") != FORMAT:
        line = 1 if told is None else _line(told)
        reader.refuse(line, "format", f"Write “format: {FORMAT}”: this version reads no other.")
    for name, node in parts.items():
        if name not in reader.known:
            known = ", ".join(reader.known)
            reader.refuse(lines[name], name, f"There is no such section; known are: {known}.")
        else:
            found[name] = (lines[name], tuple(_entries(reader, name, node)))
    return Document(found)


def _entries(reader: _Reader, section: str, node: yaml.Node) -> Iterator[Entry]:
    if isinstance(node, yaml.ScalarNode) and _plain(reader, node, section) is None:
        return
    if not isinstance(node, yaml.SequenceNode):
        reader.refuse(_line(node), section, "Write a list: one entry begins with “- ”.")
        return
    for number, part in enumerate(node.value, 1):
        place = f"{section}, entry {number}"
        if not isinstance(part, yaml.MappingNode):
            reader.refuse(_line(part), place, "Write fields with values, such as “name: eam”.")
            continue
        values = {
            name: Given(_line(value), _plain(reader, value, f"{place}, {name}"))
            for name, value in _members(reader, part, place)
        }
        yield Entry(_line(part), values)


def _members(
    reader: _Reader, node: yaml.MappingNode, place: str
) -> Iterator[tuple[str, yaml.Node]]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if not isinstance(name, str) or key.tag != "tag:yaml.org,2002:str":
            reader.refuse(_line(key), place, "A name before the colon is a word or in quotes.")
        elif name in seen:
            reader.refuse(
                _line(key), place, f"“{name}” is given twice; first in line {seen[name]}."
            )
        else:
            seen[name] = _line(key)
            yield name, value


def _plain(reader: _Reader, node: yaml.Node, place: str) -> Any:
    """The value as JSON has it, and times as they are; a mistake is told and becomes None."""
    if isinstance(node, yaml.MappingNode):
        return {n: _plain(reader, v, place) for n, v in _members(reader, node, place)}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(reader, part, place) for part in node.value]
    try:
        value = reader.scalars.construct_object(node)
    except (ValueError, yaml.YAMLError):
        reader.refuse(_line(node), place, "This cannot be read; put it in quotes if it is a text.")
        return None
    why = _unfit(value)
    if why:
        reader.refuse(_line(node), place, why)
        return None
    return value


def _unfit(value: object) -> str:
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
            return "It holds a character that no text in the database holds."
    elif isinstance(value, float) and not math.isfinite(value):
        return "A number has to be finite."
    elif isinstance(value, date) and not isinstance(value, datetime):
        return "This reads as a date; put it in quotes if it is a text."
    return ""


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
