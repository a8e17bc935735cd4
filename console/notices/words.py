"""The kinds of notices and their defaults, in words."""

from collections.abc import Iterator
from typing import NamedTuple

from crontasks.models.notice_kinds import FACTS, KindFacts
from integration.durations import written


class KindRow(NamedTuple):
    """One kind as the page lists it."""

    name: str
    title: str
    when: str
    default: str
    is_urgent: bool


def kinds() -> Iterator[KindRow]:
    """All kinds, those about queues first."""
    for kind, facts in FACTS.items():
        title = str(kind.label)
        yield KindRow(str(kind), title, facts.when, default_words(facts), facts.is_urgent)


def default_words(facts: KindFacts) -> str:
    """The thresholds that hold without a rule; empty where a kind has none."""
    said = []
    if facts.counts:
        said.append(f"{facts.count:,} {facts.counts}" if facts.count else "no default")
    if facts.window_seconds is not None:
        said.append(f"within {written(facts.window_seconds)}")
    if facts.seconds is not None:
        said.append(f"{written(facts.seconds)}: {facts.measures}")
    if facts.after_seconds:
        said.append(f"told after {written(facts.after_seconds)}")
    return " ".join(said)
