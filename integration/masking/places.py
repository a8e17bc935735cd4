"""The places of a document that are masked: where they begin and end in its text, and their values.

Both scanners go over the text once. What they are given has been read before (integration.envelope)
and is well-formed: JSON without a name twice, XML without a document type.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from xml.parsers import expat

from integration.masking.matcher import Matcher, State, Style

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s\[\]{}:,"]+')
_START_TAG: Final = re.compile(rb"""<(?:"[^"]*"|'[^']*'|[^'">])*>""")
# A blank stands before every attribute: no look begins in the middle of a name.
_ATTRIBUTE: Final = re.compile(rb"""(?<=\s)[^\s=/<>"']++\s*+=\s*+("[^"]*"|'[^']*')""")
_COLON: Final = re.compile(r"\s*+:")
_NO_VALUES: Final = frozenset({"true", "false", "null"})

Path = tuple[str | int, ...]


class Place(NamedTuple):
    """A masked value: from `start` to `end` of the text (bytes of XML), quotes included.

    `values` are the single values in it, as a text about the message would quote them.
    """

    start: int
    end: int
    path: Path
    style: Style
    values: tuple[str, ...]


def json_places(text: str, matcher: Matcher) -> Iterator[Place]:
    """Yield what is masked in a JSON text, from left to right, nothing inside of another."""
    return _JsonScan(matcher).places(text)


def xml_places(source: bytes, matcher: Matcher) -> list[Place]:
    """Return what is masked in XML (UTF-8), from left to right. Raises expat.ExpatError."""
    return _XmlScan(source, matcher).places()


@dataclass(slots=True)
class _Frame:
    """An open object or array. `at` is the member's name or the item's place, None before one."""

    is_array: bool
    state: State
    at: str | int | None


@dataclass(slots=True)
class _Open:
    """A masked value whose end is not reached yet."""

    start: int
    path: Path
    style: Style
    depth: int = 0
    values: list[str] = field(default_factory=list)

    def closed(self, end: int) -> Place:
        return Place(self.start, end, self.path, self.style, tuple(self.values))


class _JsonScan:
    """Reads tokens from left to right; `_open` while inside of a masked object or array."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._frames: list[_Frame] = []
        self._open: _Open | None = None

    def places(self, text: str) -> Iterator[Place]:
        for token in _TOKEN.finditer(text):
            place = self._inside(token) if self._open else self._outside(token)
            if place is not None:
                yield place

    def _inside(self, token: re.Match[str]) -> Place | None:
        """Go on to the end of a masked object or array; names in it are no values."""
        opened, piece = self._open, token[0]
        if opened is None:
            return None
        if piece in "{[":
            opened.depth += 1
        elif piece in "}]":
            opened.depth -= 1
        elif piece not in ":," and not _is_name(token):
            opened.values += _values(piece)
        if opened.depth:
            return None
        self._open = None
        return opened.closed(token.end())

    def _outside(self, token: re.Match[str]) -> Place | None:
        piece = token[0]
        if piece in "}]":
            self._frames.pop()
        elif piece == ",":
            frame = self._frames[-1]
            frame.at = frame.at + 1 if isinstance(frame.at, int) else None
        elif piece != ":" and not self._named(piece):
            return self._value(token)
        return None

    def _named(self, piece: str) -> bool:
        """Return whether this is a member's name, which is then noted."""
        frame = self._frames[-1] if self._frames else None
        if frame is None or frame.is_array or frame.at is not None:
            return False
        frame.at = str(json.loads(piece))
        return True

    def _value(self, token: re.Match[str]) -> Place | None:
        piece, state = token[0], self._state()
        style = self._matcher.style(state)
        if style is None:
            if piece in "{[":
                is_array = piece == "["
                self._frames.append(_Frame(is_array, state, 0 if is_array else None))
            return None
        path = tuple(frame.at for frame in self._frames if frame.at is not None)
        opened = _Open(token.start(), path, style)
        if piece in "{[":
            opened.depth, self._open = 1, opened
            return None
        opened.values += _values(piece)
        return opened.closed(token.end())

    def _state(self) -> State:
        if not self._frames:
            return self._matcher.start
        frame = self._frames[-1]
        if isinstance(frame.at, str):
            return self._matcher.member(frame.state, frame.at)
        return self._matcher.item(frame.state)


def _is_name(token: re.Match[str]) -> bool:
    """Return whether a colon follows."""
    return token[0].startswith('"') and _COLON.match(token.string, token.end()) is not None


def _values(piece: str) -> list[str]:
    if piece in _NO_VALUES:
        return []
    value = json.loads(piece) if piece.startswith('"') else piece
    return [value] if value else []


@dataclass(slots=True)
class _Element:
    """An open element, with how many children of each name it has had."""

    state: State
    path: Path
    counts: dict[str, int] = field(default_factory=dict)


class _XmlScan:
    """Handlers of one pass; `_open` while inside of a masked element."""

    def __init__(self, source: bytes, matcher: Matcher) -> None:
        self._source = source
        self._matcher = matcher
        self._elements = [_Element(matcher.start, ())]
        self._open: _Open | None = None
        self._places: list[Place] = []
        self._parser = expat.ParserCreate("utf-8")

    def places(self) -> list[Place]:
        parser: Any = self._parser
        parser.ordered_attributes = True
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.Parse(self._source, True)
        return self._places

    def _start(self, name: str, attributes: list[str]) -> None:
        if self._open is not None:
            self._open.depth += 1
            self._open.values += [value for value in attributes[1::2] if value]
            return
        parent, local = self._elements[-1], _local(name)
        number = parent.counts[local] = parent.counts.get(local, 0) + 1
        path = (*parent.path, local, number)
        state = self._matcher.member(parent.state, local)
        style = self._matcher.style(state)
        tag = _START_TAG.match(self._source, self._parser.CurrentByteIndex)
        if tag is None:
            raise ValueError(f"no start tag of {name}")
        self._attributes(tag, attributes, state, path)
        if style is not None and not tag[0].endswith(b"/>"):
            self._open = _Open(tag.end(), path, style, depth=1)
            return
        self._elements.append(_Element(state, path))

    def _attributes(
        self, tag: re.Match[bytes], attributes: list[str], state: State, path: Path
    ) -> None:
        """Note the masked ones; all of a masked element are."""
        written = _ATTRIBUTE.finditer(self._source, tag.start(), tag.end())
        whole = self._matcher.style(state)
        for found, name, value in zip(written, attributes[::2], attributes[1::2], strict=False):
            if name == "xmlns" or name.startswith("xmlns:"):
                continue
            local = _local(name)
            style = self._matcher.style(self._matcher.attribute(state, local)) or whole
            if style is not None:
                values = (value,) if value else ()
                where = (*path, f"@{name}")
                self._places.append(Place(found.start(1), found.end(1), where, style, values))

    def _text(self, text: str) -> None:
        if self._open is not None and text.strip():
            self._open.values.append(text.strip())

    def _end(self, _name: str) -> None:
        opened = self._open
        if opened is None:
            self._elements.pop()
            return
        opened.depth -= 1
        if not opened.depth:
            self._open = None
            if self._parser.CurrentByteIndex > opened.start:
                self._places.append(opened.closed(self._parser.CurrentByteIndex))


def _local(name: str) -> str:
    return name.rpartition(":")[2]
