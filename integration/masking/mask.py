"""The mask of one kind of message: what of its document, headers and key is hidden, and as what."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from typing import AnyStr, Final, NamedTuple
from xml.parsers.expat import ExpatError

from integration.envelope.retry_wrapper import MESSAGE
from integration.masking.matcher import Matcher, State, Style, matcher_of
from integration.masking.places import Path, Place, json_places, xml_places
from integration.masking.steps import ANY, ANY_ATTRIBUTE, Steps, steps_of
from integration.paths import BadPath, plain_steps

# What stands for a hidden value, numbered inside a document so that an editor can put it back.
HIDDEN: Final = "⟦masked⟧"
# Serializers that write nothing but ASCII escape its brackets, as JSON or as XML has it.
PLACEHOLDER: Final = re.compile(
    r"(?:⟦|\\u27e6|&#10214;|&#x27e6;)masked (\d{1,7})"
    r"(?:: (?:…|\\u2026|&#8230;|&#x2026;)\w{4})?(?:⟧|\\u27e7|&#10215;|&#x27e7;)",
    re.IGNORECASE,
)
PLACEHOLDER_FAULT: Final = "“{}” stands for a hidden value: write one of your own"
# Of shorter values the last four would be most of them.
LONG_ENOUGH: Final = 8
ALL_HEADERS: Final = "*"
EVERYTHING: Final = ("$[*]", "/*")

Headers = Iterable[tuple[str, bytes | None]]


class Part(StrEnum):
    """The part of a message that a rule speaks of."""

    PAYLOAD = "payload"
    HEADER = "header"
    KEY = "key"


class Rule(NamedTuple):
    """What to mask: `path` is a masking path, the name of a header, or empty for the key."""

    part: Part
    path: str
    style: Style


@dataclass(frozen=True, slots=True)
class Hidden:
    """A document's text with placeholders, and the places they stand for."""

    text: str
    places: tuple[Place, ...] = ()

    @property
    def values(self) -> frozenset[str]:
        """The hidden values as texts."""
        return frozenset(value for place in self.places for value in place.values)


@dataclass(frozen=True)
class Mask:
    """Compiled rules for one kind of message; NOTHING hides nothing. Threads may share it."""

    json: Matcher | None = None
    xml: Matcher | None = None
    headers: Mapping[str, Style] = field(default_factory=dict)
    key: Style | None = None
    # What is masked, in words for the audit: paths, names of headers, the key.
    parts: tuple[str, ...] = ()

    @cached_property
    def is_empty(self) -> bool:
        return not (self.hides_payload or self.headers or self.key)

    @cached_property
    def hides_payload(self) -> bool:
        """Return whether a rule speaks of the document: what cannot be read is hidden whole."""
        return self.json is not None or self.xml is not None

    @cached_property
    def in_wrapper(self) -> "Mask":
        """The mask of a document that stands in a retry wrapper.

        Paths begin at the document, and so do those that were written for the wrapper around it.
        """
        if self.json is None:
            return self
        message = self.json.member(self.json.start, MESSAGE)
        start = self.json.start | message | self.json.member(message, "payload")
        return replace(self, json=replace(self.json, start=start))

    @cached_property
    def hides_root(self) -> bool:
        """Return whether all of a JSON document is hidden, as a value of what is around it."""
        return self.json is not None and self.json.style(self.json.start) is not None

    def document(self, text: str, *, is_xml: bool) -> Hidden | None:
        """The text of a document that could be read; None where it cannot be gone through."""
        return _xml(text, self.xml) if is_xml else _json(text, self.json)

    def covers(self, path: str) -> bool:
        """Return whether the value that such a path of a structure finds may be a masked one.

        Where a path is more than names and places it is not known, and so it may.
        """
        return self.below(path) is None

    def below(self, path: str) -> "Mask | None":
        """The mask of the value that such a path finds; None where all of it may be masked."""
        is_xml = path.startswith("/")
        matcher = self.xml if is_xml else self.json
        if matcher is None or not path:
            return NOTHING
        names = _plain(path)
        if names is None:
            return None
        state = matcher.start
        for name in names:
            if matcher.style(state) is not None:
                return None
            state = _on(matcher, state, name, is_xml=is_xml)
        if matcher.style(state) is not None:
            return None
        inner = replace(matcher, start=state)
        return Mask(xml=inner) if is_xml else Mask(json=inner)

    def header(self, name: str, value: str) -> str:
        """A header's value as it is shown."""
        style = self.header_style(name)
        return value if style is None or not value else short(value, style)

    def header_style(self, name: str) -> Style | None:
        return self.headers.get(name.lower(), self.headers.get(ALL_HEADERS))

    def shown(self, headers: Headers) -> list[tuple[str, bytes | None]]:
        """These headers with what is shown instead of their values."""
        return [
            (name, value)
            if value is None or self.header_style(name) is None
            else (name, self.header(name, value.decode(errors="replace")).encode())
            for name, value in headers
        ]

    def hides_any(self, names: Iterable[str]) -> bool:
        """Return whether any header of these names is hidden."""
        return any(self.header_style(name) is not None for name in names)

    def key_text(self, key: str) -> str:
        """The record key as it is shown."""
        return key if self.key is None or not key else short(key, self.key)


NOTHING: Final = Mask()


@lru_cache(maxsize=256)
def mask_of(rules: frozenset[Rule]) -> Mask:
    """Compile rules, once for each set of them."""
    if not rules:
        return NOTHING
    payload = [rule for rule in sorted(rules) if rule.part is Part.PAYLOAD]
    paths = [(steps, rule.style) for rule in payload for steps in _steps(rule.path)]
    headers = [(r.path.lower(), r.style) for r in rules if r.part is Part.HEADER]
    keys = [r.style for r in rules if r.part is Part.KEY]
    return Mask(
        json=matcher_of(path for path in paths if not path[0].is_xml),
        xml=matcher_of(path for path in paths if path[0].is_xml),
        headers={name: _strictest(s for n, s in headers if n == name) for name, _ in headers},
        key=_strictest(keys) if keys else None,
        parts=tuple(sorted({_part_of(rule) for rule in rules})),
    )


def _plain(path: str) -> Sequence[str | int] | None:
    """The names of a path of a structure; None where it has more."""
    if not path.startswith("/"):
        return plain_steps(path)
    try:
        steps = steps_of(path)
    except BadPath:
        return None
    is_plain = not steps.deep and ANY not in steps.names and ANY_ATTRIBUTE not in steps.names
    return steps.names if is_plain else None


def _on(matcher: Matcher, state: State, name: str | int, *, is_xml: bool) -> State:
    if isinstance(name, int):
        return matcher.item(state)
    if is_xml and name.startswith("@"):
        return matcher.attribute(state, name[1:])
    return matcher.member(state, name)


def _part_of(rule: Rule) -> str:
    match rule.part:
        case Part.PAYLOAD:
            return rule.path
        case Part.HEADER:
            return f"header {rule.path}"
        case Part.KEY:
            return "key"


def _steps(path: str) -> list[Steps]:
    """The steps of a path. One that was saved past validation hides whole documents."""
    try:
        return [steps_of(path)]
    except BadPath:
        return [steps_of(everything) for everything in EVERYTHING]


def _strictest(styles: Iterable[Style]) -> Style:
    return Style.WHOLE if Style.WHOLE in set(styles) else Style.LAST_FOUR


def short(value: str, style: Style) -> str:
    """What is shown of a value that stands alone.

    >>> short("4000123412341234", Style.LAST_FOUR)
    '⟦masked: …1234⟧'
    """
    end = _end_of([value], style)
    return f"{HIDDEN[:-1]}: …{end}⟧" if end else HIDDEN


def placeholder(number: int, place: Place) -> str:
    """What stands in a document for its masked place of this number, from 1."""
    end = _end_of(place.values, place.style)
    return f"⟦masked {number}: …{end}⟧" if end else f"⟦masked {number}⟧"


def _end_of(values: Sequence[str], style: Style) -> str:
    """The end of a value that may be seen; empty where all of it is hidden."""
    if style is not Style.LAST_FOUR or len(values) != 1 or len(values[0]) < LONG_ENOUGH:
        return ""
    end = values[0][-4:]
    return end if end.isascii() and end.isalnum() else ""


def _json(text: str, matcher: Matcher | None) -> Hidden:
    if matcher is None:
        return Hidden(text)
    places = tuple(json_places(text, matcher))
    shown = [json.dumps(said, ensure_ascii=False) for said in _placeholders(places)]
    return Hidden(spliced(text, places, shown), places)


def _xml(text: str, matcher: Matcher | None) -> Hidden | None:
    if matcher is None:
        return Hidden(text)
    try:
        source = text.encode()
        places = tuple(xml_places(source, matcher))
    except (ExpatError, ValueError):
        return None
    shown = [
        f'"{said}"'.encode() if is_attribute(place.path) else said.encode()
        for said, place in zip(_placeholders(places), places, strict=True)
    ]
    return Hidden(spliced(source, places, shown).decode(), places)


def _placeholders(places: Sequence[Place]) -> list[str]:
    return [placeholder(number, place) for number, place in enumerate(places, 1)]


def is_attribute(path: Path) -> bool:
    return isinstance(path[-1], str) and path[-1].startswith("@")


def spliced(text: AnyStr, places: Sequence[Place], shown: Sequence[AnyStr]) -> AnyStr:
    """The text with something else in each place."""
    pieces: list[AnyStr] = []
    at = 0
    for place, said in zip(places, shown, strict=True):
        pieces.append(text[at : place.start])
        pieces.append(said)
        at = place.end
    pieces.append(text[at:])
    return text[:0].join(pieces)


def placeholder_fault(text: str) -> str:
    """Return why new data cannot be made of a text with a placeholder in it; empty without one.

    There is no message whose value could be put back. It has no full stop.
    """
    found = PLACEHOLDER.search(text)
    return PLACEHOLDER_FAULT.format(found[0]) if found else ""
