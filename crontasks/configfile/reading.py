"""Reads a configuration file: bounded, without aliases or tags, each value with its line.

The file may come from anywhere, so nothing of it is expanded before it has been measured.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final

import yaml

from integration.errors import IntegrationError

MAX_BYTES: Final = 5_000_000
MAX_EVENTS: Final = 500_000
MAX_DEPTH: Final = 30
MAX_DIGITS: Final = 400
FORMAT: Final = 1


@dataclass(frozen=True, slots=True, order=True)
class Mistake:
    """One mistake: its line in the file, what it is about, and a sentence."""

    line: int
    place: str
    text: str

    @property
    def sentence(self) -> str:
        """The mistake without its line, for who tells that apart."""
        return f"{self.place}: {self.text}" if self.place else self.text

    def __str__(self) -> str:
        return f"line {self.line}: {self.sentence}"


class ConfigFileError(IntegrationError):
    """The file cannot be applied; nothing was changed."""

    code = "CONFIG_FILE"

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = sorted(set(mistakes))
        count = len(self.mistakes)
        how_many = "a mistake" if count == 1 else f"{count:,} mistakes"
        super().__init__(
            f"The file has {how_many}, so nothing was changed.",
            next_step="Correct the lines that are named and run it again.",
        )


class SecretDestinationError(ConfigFileError):
    """The file would send a stored secret to where it was not stored for."""

    code = "SECRET_DESTINATION"


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

    def text(self, name: str) -> str | None:
        """Return what it says for a field, if that is a text."""
        given = self.values.get(name)
        return given.value if given is not None and isinstance(given.value, str) else None


# The sections of a file by their names, each with its line and entries.
Sections = dict[str, tuple[int, tuple[Entry, ...]]]


def read(content: bytes, names: Sequence[str]) -> Sections:
    """The sections, of which only these are known.

    Raises ConfigFileError with every mistake of the file's form.
    """
    text = _decoded(content)
    try:
        _measure(text)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as e:
        mark = getattr(e, "problem_mark", None) or getattr(e, "context_mark", None)
        line = 1 if mark is None else mark.line + 1
        why = f"This is no YAML: {getattr(e, 'problem', e)}."
        raise ConfigFileError([Mistake(line, "", why)]) from e
    except (ValueError, OverflowError) as e:
        # The library's scanner lets it pass: an escape, or a version, beyond all bounds.
        why = f"This is no YAML: an escape or a number in it is none ({e})."
        raise ConfigFileError([Mistake(1, "", why)]) from e
    reader = _Reader(names)
    sections = reader.sections(root)
    if reader.mistakes:
        raise ConfigFileError(reader.mistakes)
    return sections


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


class _Reader:
    """Reads the nodes of a file and notes every mistake."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.mistakes: list[Mistake] = []
        self._scalars: Any = yaml.SafeLoader("")

    def sections(self, root: yaml.Node | None) -> Sections:
        if not isinstance(root, yaml.MappingNode):
            self._refuse(1, "", f"Begin with “format: {FORMAT}”, then sections such as “queues:”.")
            return {}
        sections: Sections = {}
        parts = dict(self._members(root, ""))
        lines = {k.value: _line(k) for k, _ in root.value if isinstance(k, yaml.ScalarNode)}
        version = parts.pop("format", None)
        if version is None or self._plain(version, "format") != FORMAT:
            line = 1 if version is None else _line(version)
            self._refuse(line, "format", f"Write “format: {FORMAT}”: this version reads no other.")
        for name, node in parts.items():
            if name in self.names:
                sections[name] = (lines[name], tuple(self._entries(name, node)))
            else:
                why = f"There is no such section; known are: {', '.join(self.names)}."
                self._refuse(lines[name], name, why)
        return sections

    def _entries(self, section: str, node: yaml.Node) -> Iterator[Entry]:
        if isinstance(node, yaml.ScalarNode) and self._plain(node, section) is None:
            return
        if not isinstance(node, yaml.SequenceNode):
            self._refuse(_line(node), section, "Write a list: one entry begins with “- ”.")
            return
        for number, part in enumerate(node.value, 1):
            place = f"{section}, entry {number}"
            if not isinstance(part, yaml.MappingNode):
                self._refuse(_line(part), place, "Write fields with values, such as “name: eam”.")
                continue
            values = {
                name: Given(_line(value), self._plain(value, f"{place}, {name}"))
                for name, value in self._members(part, place)
            }
            yield Entry(_line(part), values)

    def _members(self, node: yaml.MappingNode, place: str) -> Iterator[tuple[str, yaml.Node]]:
        lines: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                self._refuse(_line(key), place, "A name before the colon is a word or in quotes.")
            elif why := _unfit(key.value):
                self._refuse(_line(key), place, why)
            elif key.value in lines:
                why = f"“{key.value}” is given twice; first in line {lines[key.value]}."
                self._refuse(_line(key), place, why)
            else:
                lines[key.value] = _line(key)
                yield key.value, value

    def _plain(self, node: yaml.Node, place: str) -> Any:
        """The value as JSON has it, and times as they are; a mistake becomes None."""
        if isinstance(node, yaml.MappingNode):
            return {name: self._plain(v, place) for name, v in self._members(node, place)}
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(part, place) for part in node.value]
        value, why = None, "This cannot be read; put it in quotes if it is a text."
        with suppress(ValueError, OverflowError, yaml.YAMLError):
            if not _is_endless(node):
                value = self._scalars.construct_object(node)
                why = _unfit(value)
        if why:
            self._refuse(_line(node), place, why)
            return None
        return value

    def _refuse(self, line: int, place: str, text: str) -> None:
        self.mistakes.append(Mistake(line, place, text))


def _is_endless(node: yaml.Node) -> bool:
    """Return whether it is a number that nobody means: of many digits, or in base 60, as 1:30:00.

    Such a one takes the square of its length to compute.
    """
    is_number = node.tag in {"tag:yaml.org,2002:int", "tag:yaml.org,2002:float"}
    return is_number and (len(node.value) > MAX_DIGITS or ":" in node.value)


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
