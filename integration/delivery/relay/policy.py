"""Pure decisions of the relay: what became of a stamped batch, how much to try next."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

MAX_ROWS: Final = 1_000
MAX_BYTES: Final = 4 * 2**20
# How long to wait for a broker that is down: it doubles from the first to the last.
FIRST_PAUSE_SECONDS: Final = 0.25
LAST_PAUSE_SECONDS: Final = 5.0


class Finding(StrEnum):
    """What became of a batch that an earlier owner stamped."""

    SENT = "sent"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"  # Kafka has forgotten the watermark: a person decides


Judge = Callable[[UUID, str | None], Finding]


def judge(stamped: UUID, watermark: str | None) -> Finding:
    """Whether the stamped batch is out: exactly when the stable watermark carries its id.

    Numbers are never compared: after a restore of the database new rows have numbers below
    an old watermark and would pass for sent.
    """
    if watermark is None:
        return Finding.UNKNOWN
    return Finding.SENT if watermark == str(stamped) else Finding.NOT_SENT


@dataclass(slots=True)
class Pace:
    """How many rows the next batch may have; narrowed down to the row that Kafka refuses."""

    rows: int = MAX_ROWS

    def after_sent(self) -> None:
        self.rows = min(MAX_ROWS, self.rows * 2)

    def after_refused(self, size: int, index: int) -> None:
        """Next comes the part before the refused row, then that row alone, then the rest."""
        self.rows = index if 0 < index < size else 1

    def after_buried(self) -> None:
        """The row that was in the way is gone."""
        self.rows = MAX_ROWS


@dataclass(slots=True)
class Patience:
    """Growing pauses while nobody answers."""

    failures: int = 0

    def next_pause_seconds(self) -> float:
        pause = FIRST_PAUSE_SECONDS * 2.0 ** min(self.failures, 10)
        self.failures += 1
        return min(pause, LAST_PAUSE_SECONDS)

    def reset(self) -> None:
        self.failures = 0
