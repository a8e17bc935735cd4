"""Many masking paths followed at once while a document is gone through: one integer is all state.

Each path has a bit for every step and one for its end. A step to a member or an element shifts the
bits that it fits, so that the time for a document grows with its length and hardly with the rules.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from integration.masking.steps import ANY, ANY_ATTRIBUTE, MANY, Steps

State = int


class Style(StrEnum):
    """How much of a value is left."""

    WHOLE = "whole"
    LAST_FOUR = "last-four"


@dataclass(frozen=True, slots=True)
class Matcher:
    """Compiled paths, all of one kind. It may be shared between threads."""

    start: State
    by_name: Mapping[str, State]
    others: State
    by_attribute: Mapping[str, State]
    other_attributes: State
    loops: State
    optional: State
    ends: State
    ends_whole: State

    def member(self, state: State, name: str) -> State:
        """The state at a member of this name, or at a child element."""
        return self.closed(
            ((state & self.by_name.get(name, self.others)) << 1) | (state & self.loops)
        )

    def attribute(self, state: State, name: str) -> State:
        """The state at an attribute of an element."""
        return (state & self.by_attribute.get(name, self.other_attributes)) << 1

    def item(self, state: State) -> State:
        """The state at each item of an array: arrays are looked through."""
        return self.closed(((state & self.others) << 1) | state)

    def style(self, state: State) -> Style | None:
        """How a value in this state is masked; None where it is not."""
        if not state & self.ends:
            return None
        return Style.WHOLE if state & self.ends_whole else Style.LAST_FOUR

    def closed(self, state: State) -> State:
        """A `[*]` may be left out: one value, or a list of them."""
        while (wider := state | ((state & self.optional) << 1)) != state:
            state = wider
        return state


def matcher_of(paths: Iterable[tuple[Steps, Style]]) -> Matcher | None:
    """Compile paths of one kind; None where there are none."""
    bits = _Bits()
    for steps, style in paths:
        bits.add(steps, style)
    return bits.matcher() if bits.at else None


class _Bits:
    """The bits of a matcher while its paths are added one after the other."""

    def __init__(self) -> None:
        self.at = 0
        self.start = self.loops = self.optional = self.ends = self.whole = 0
        self.others = self.other_attributes = 0
        self.names: defaultdict[str, State] = defaultdict(int)
        self.attributes: defaultdict[str, State] = defaultdict(int)

    def add(self, steps: Steps, style: Style) -> None:
        self.start |= 1 << self.at
        for place, name in enumerate(steps.names):
            bit = 1 << self.at
            self._add_step(name, bit, is_xml=steps.is_xml)
            if place in steps.deep:
                self.loops |= bit
            self.at += 1
        self.ends |= 1 << self.at
        if style is Style.WHOLE:
            self.whole |= 1 << self.at
        self.at += 1

    def _add_step(self, name: str, bit: State, *, is_xml: bool) -> None:
        if name in (ANY, MANY):
            self.others |= bit
            self.optional |= bit if name == MANY else 0
        elif is_xml and name == ANY_ATTRIBUTE:
            self.other_attributes |= bit
        elif is_xml and name.startswith("@"):
            self.attributes[name[1:]] |= bit
        else:
            self.names[name] |= bit

    def matcher(self) -> Matcher:
        made = Matcher(
            start=self.start,
            by_name={name: bits | self.others for name, bits in self.names.items()},
            others=self.others,
            by_attribute={
                name: bits | self.other_attributes for name, bits in self.attributes.items()
            },
            other_attributes=self.other_attributes,
            loops=self.loops,
            optional=self.optional,
            ends=self.ends,
            ends_whole=self.whole,
        )
        return replace(made, start=made.closed(made.start))
