"""Topics that the relay leaves out of its batches, as they cannot be written now. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# The time until a topic that is left out is looked at again: it doubles from the first to the last.
FIRST_LOOK_SECONDS: Final = 10.0
LAST_LOOK_SECONDS: Final = 30.0
# So many are named; of a broker that is away thousands may be left out.
MOST_NAMED: Final = 20
# Kafka's own word, also where no copy is left to lead. Others write it, too: so the words after it.
LEAVES_OUT: Final = "NOT_ENOUGH_REPLICAS: The relay leaves out "


@dataclass(slots=True)
class LeftOut:
    """The topics that are left out, and why. Times in seconds."""

    why: Mapping[str, str] = field(default_factory=dict)
    _looks: int = 0
    _look_at: float = 0.0

    def add(self, ailing: Mapping[str, str], now: float) -> None:
        """Leave out these as well; the looks begin anew."""
        self._looks = 0
        self.note({**self.why, **ailing}, now)

    def note(self, ailing: Mapping[str, str], now: float) -> None:
        """Leave out these and no others: so they were found just now."""
        self.why = dict(ailing)
        pause = FIRST_LOOK_SECONDS * 2.0 ** min(self._looks, 10)
        self._look_at = now + min(pause, LAST_LOOK_SECONDS)
        self._looks += 1

    def is_look_due(self, now: float) -> bool:
        """Return whether to ask again if these topics can be written."""
        return bool(self.why) and now >= self._look_at

    @property
    def text(self) -> str:
        """What people are told; "" while nothing is left out."""
        if not self.why:
            return ""
        what = "a topic" if len(self.why) == 1 else "topics"
        told = f"{what} that cannot be written now: {_listed(self.why)}"
        return f"{LEAVES_OUT}{told}. What goes to others is sent."


def leaves_out(trouble: str) -> bool:
    """Return whether a relay's trouble is no more than that it leaves topics out."""
    return trouble.startswith(LEAVES_OUT)


def hindering_text(ailing: Mapping[str, str]) -> str:
    """What to add to the trouble of a relay that cannot begin; "" where it is no such topic."""
    if not ailing:
        return ""
    is_one = len(ailing) == 1
    what = "A topic of the last batch" if is_one else "Topics of the last batch"
    return f" {what} cannot be written now, which may be the cause: {_listed(ailing)}."


def _listed(ailing: Mapping[str, str]) -> str:
    named = [f"{topic} ({why})" for topic, why in sorted(ailing.items())[:MOST_NAMED]]
    more = len(ailing) - len(named)
    return "; ".join([*named, f"and {more:,} more"] if more else named)
