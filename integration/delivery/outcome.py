"""Outcomes of one try on one message, as values."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from integration.policy.failure import Failure
from integration.policy.retry import GiveUp, RetryAfter
from integration.policy.states import Ended


@dataclass(frozen=True, slots=True)
class Good:
    """The message is through; `ended` says how, `text` why when that is not obvious."""

    ended: Ended
    text: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The message is not through. `crashes` counts the deaths that a CRASH failure tells of.

    `verdict` says whether it is tried again, where that was decided before its ending.
    """

    failure: Failure
    crashes: int = 0
    verdict: RetryAfter | GiveUp | None = None


@dataclass(frozen=True, slots=True)
class Waits:
    """A copy on a strict error queue whose failure `error` is open: the position stays at it."""

    error: UUID


@dataclass(frozen=True, slots=True)
class Parked:
    """The message was not tried: it waits behind an earlier one of its key, which is open."""


Outcome = Good | Failed | Waits | Parked

APPLIED: Final = Good(Ended.APPLIED)
DELIVERED: Final = Good(Ended.DELIVERED)
SUPERSEDED: Final = Good(Ended.SUPERSEDED, "Its key already has newer data; nothing was written.")
DUPLICATE: Final = Good(Ended.DUPLICATE, "The same id with the same content was applied before.")
STALE: Final = Good(Ended.STALE, "A retry marker whose retry is no longer due.")
PASSED: Final = Good(Ended.PASSED, "Nothing to apply.")
HAS_ROW: Final = Good(Ended.PASSED, "Its failure, open or closed since, is the message.")
UNREAD: Final = Good(Ended.PASSED, "Not read yet: it is read alone, under its marker.")
DELETED: Final = Good(Ended.DELETED, "A person deleted it.")
PARKED: Final = Parked()
