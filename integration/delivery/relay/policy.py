"""Pure decisions of the relay: what became of a stamped batch, how much to try next."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from integration.counting import so_many

MAX_ROWS: Final = 5_000
MAX_BYTES: Final = 4 * 2**20
# Noted in the place of what a provider is, where that was changing: it is no provider's.
UNSURE: Final = "unsure"
# The wait for a broker that is down: it doubles from the first to the last.
FIRST_PAUSE_SECONDS: Final = 0.25
LAST_PAUSE_SECONDS: Final = 5.0


class Finding(StrEnum):
    """The fate of a batch that an earlier owner stamped."""

    SENT = "sent"
    NOT_SENT = "not_sent"
    UNKNOWN = "unknown"  # Kafka has forgotten the watermark: a person decides


Judge = Callable[[UUID, str | None], Finding]


def judge(stamped: UUID, watermark: str | None) -> Finding:
    """Judge whether the stamped batch is out: when the stable watermark carries its id.

    Numbers are never compared: after a restore of the database new rows have numbers below
    an old watermark and would pass for sent.
    """
    if watermark is None:
        return Finding.UNKNOWN
    return Finding.SENT if watermark == str(stamped) else Finding.NOT_SENT


def is_another(former: str, cluster: str) -> bool:
    """Return whether these are the ids of two clusters; "" where one told none."""
    return bool(former and cluster) and former != cluster


def place_of(as_of: str) -> str:
    """Of what a provider is, the part that says where its cluster is; "" of nothing noted."""
    return as_of.partition("/")[0]


def has_moved(former: str, cluster: str, *, is_provider_changed: bool) -> bool:
    """Return whether a stamped batch may have gone to another cluster, which was `former`.

    Both are the clusters' own ids, "" where none was told. Where that leaves it open, a change of
    the provider since counts: nothing else tells a restart from a move.
    """
    return is_another(former, cluster) if former and cluster else is_provider_changed


def after_move(finding: Finding, *, has_moved: bool) -> Finding:
    """What is left of a finding where the provider names another cluster since.

    The new cluster does not have the batch; the former one may.
    """
    is_open = has_moved and finding is Finding.NOT_SENT
    return Finding.UNKNOWN if is_open else finding


def is_ahead(watermark: str | None, *, known: str | None, stamped: UUID | None) -> bool:
    """Return whether Kafka has a batch that this database never sent: it then went back.

    `known` is the last batch the database knows to be in Kafka, None while it never noted one.
    By identity alone, as above; nothing is ahead where Kafka has forgotten or begins anew.
    """
    return bool(watermark) and known is not None and watermark not in {known, str(stamped)}


def has_lost_mark(watermark: str | None, *, known: str | None, before: str) -> bool:
    """Return whether Kafka has lost the mark of the last known batch: the one `before` stands.

    That is no earlier state of the database: Kafka is behind, and the relay sets it again.
    """
    return bool(known and watermark) and watermark == before


@dataclass(slots=True)
class Pace:
    """The size of the next batch in rows; narrowed down to the row that Kafka refuses."""

    rows: int = MAX_ROWS
    # The next batch after this one begins with the row that was refused.
    _is_suspect_next: bool = False
    _buried_in_a_row: int = 0

    def after_sent(self) -> None:
        self.rows = 1 if self._is_suspect_next else min(MAX_ROWS, self.rows * 2)
        self._is_suspect_next = False
        self._buried_in_a_row = 0

    def after_refused(self, size: int, index: int) -> None:
        """Next comes the part before the refused row, then that row alone, then the rest."""
        self._is_suspect_next = 0 < index < size
        self.rows = index if self._is_suspect_next else 1

    def after_buried(self) -> None:
        """The row that was in the way is gone; the more in a row, the less is tried at once.

        A refusal costs more than a small batch: where all rows are refused (their topic is
        gone) each is tried alone at once, and the first that goes out doubles the pace again.
        """
        self._buried_in_a_row += 1
        self.rows = max(1, MAX_ROWS >> 3 * self._buried_in_a_row)


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


def ahead_text(*, has_moved: bool) -> str:
    if has_moved:
        return (
            "The provider may name another cluster than before. This one has a batch of outgoing "
            "messages of ours which is not the last one: it was in use before, or is a copy."
        )
    return (
        "Kafka has a batch of outgoing messages that this database never sent: the database is an "
        "earlier state of one that went on."
    )


def doubt_text(count: int, *, has_moved: bool = False) -> str:
    why = (
        "the provider may name another cluster since, which cannot tell whether that happened. "
        "Look into the topics of the one before"
        if has_moved
        else "Kafka has forgotten whether that happened. Look into the topics"
    )
    return (
        f"{so_many(count, 'message was', 'messages were')} about to be sent when the relay ended, "
        f"and {why}, then say whether {'it is' if count == 1 else 'they are'} there."
    )
