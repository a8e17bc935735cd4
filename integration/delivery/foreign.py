"""Records of an error queue that other applications put there: failures of theirs."""

from typing import Final

from integration.delivery.outcome import UNREAD, Failed
from integration.delivery.reading import DIGEST, is_own_copy
from integration.delivery.unit import Unit
from integration.envelope.dead_letters import DeadLetter, dead_letter_of
from integration.policy.failure import Failure, FailureClass, cause_words
from integration.values import Record

DEAD_LETTER: Final = "DEAD_LETTER"
FOREIGN: Final = Failure(
    FailureClass.PERMANENT,
    "FOREIGN_FAILURE",
    "Another application put this failure here. Read it, then release or delete it.",
)


def foreign_failure(record: Record) -> Failure:
    """Return the failure that the record is, as its headers tell."""
    letter = dead_letter_of(record.headers)
    return FOREIGN if letter is None else _told(letter)


def hold_foreign(unit: Unit) -> Unit:
    """Keep what another application put into an error queue for a person; unread ones later."""
    if unit.known is not UNREAD:
        unit.taker, unit.known = None, Failed(foreign_failure(unit.record))
    return unit


def passes(record: Record, deployment: str) -> bool:
    """Return whether a record of an error queue is a copy of ours that nobody has given up since.

    Frameworks add their headers behind those that are there. What stands before ours was told of
    the failed message itself, whose row we have.
    """
    if not is_own_copy(record, deployment):
        return False
    headers = record.headers or ()
    since = max(place for place, (name, _) in enumerate(headers) if name == DIGEST)
    return dead_letter_of(headers[since:]) is None


def letter_of(record: Record, failure: Failure) -> DeadLetter | None:
    """Return what is told of a record that is held as a dead letter."""
    return dead_letter_of(record.headers) if failure.code == DEAD_LETTER else None


def _told(letter: DeadLetter) -> Failure:
    """Say who gave it up and why; what the exception quotes is left to the details."""
    by = f"{letter.framework} ({letter.reader})" if letter.reader else letter.framework
    cause = letter.short_cause or "no exception is named"
    why = f"{cause}: {cause_words(letter.message)}" if letter.message else cause
    detail = "\n".join(filter(None, (letter.cause, letter.message, letter.trace)))
    text = f"{by} gave it up: {why}"
    return Failure(FailureClass.PERMANENT, "DEAD_LETTER", text, detail)
