"""The account of one failure: what happened in a sentence, what it waits for, what to do now."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from integration.envelope import FlawCode
from integration.models import MessageError, QueuePartition
from integration.policy.failure import FailureClass
from integration.policy.states import ErrorState
from integration.selectors.failures.advice import SYSTEM_ON_AGAIN, advice_for
from integration.selectors.failures.rows import FailureRow
from integration.selectors.setup import takers
from integration.store import key_order

PARKED: Final = "PARKED"
WAITING: Final = (ErrorState.READY, ErrorState.RETRY, ErrorState.PARKED)
AFTER_CLASS: Final[Mapping[str, str]] = {
    FailureClass.PERMANENT: "It is not tried again by itself.",
    FailureClass.TRANSIENT: "It may succeed later, but is not tried by itself any more.",
    FailureClass.CONFLICT: "Other work held the same rows. It is not tried by itself any more.",
    FailureClass.DEPENDENCY: "It refers to something that was not there. It is not tried by "
    "itself any more.",
    FailureClass.OUTAGE: "Something every message needs was down.",
    FailureClass.DISABLED: "No retry was spent.",
    FailureClass.CRASH: "The worker died each time it tried this message, alone in the end.",
}
# The next step; for one on hold it depends on the code: selectors.advice.
NOW: Final[Mapping[ErrorState, str]] = {
    ErrorState.RETRY: "Nothing yet: it will be tried again by itself. Hold it to stop that.",
    ErrorState.READY: "Nothing: it was released and will be tried within seconds.",
    ErrorState.PARKED: "Release or delete the earlier message of its key; this one follows then.",
    ErrorState.PROCESSING: "Wait: the worker died on it before, so it is being tried alone.",
    ErrorState.RESOLVED: "Nothing: it is done.",
    ErrorState.DELETED: "Nothing; it can be restored until cleanup removes it.",
}


@dataclass(frozen=True, slots=True)
class Account:
    """The account of what happened, in one sentence, and what to do now."""

    what: str
    now: str


def account_of(error: MessageError, late: str | None, waits: str) -> Account:
    """`waits` says what is to be closed before it is tried; empty where nothing is."""
    state = ErrorState(error.state)
    name = error.interface or "A message of unknown type"
    tried = "once" if error.attempts == 1 else f"{error.attempts} times"
    what = f"{name} was tried {tried} and failed: {sentence_of(error.text or error.code)}"
    if error.code == PARKED:
        what = f"{name} was not tried: {sentence_of(error.text)}"
    elif error.attempts == 0:
        what = f"{name} could not be tried: {sentence_of(error.text or error.code)}"
    if state is ErrorState.RESOLVED:
        first = "was parked" if error.code == PARKED else "failed"
        what = f"{name} {first} at first and ended as {error.ended.lower() or 'resolved'}."
    elif state is ErrorState.HOLD:
        what = f"{what} {AFTER_CLASS.get(error.failure_class, '')}".strip()
    if waits:
        return Account(what, waits)
    if state is not ErrorState.HOLD:
        return Account(what, NOW[state])
    now = advice_for(error, error.queue, _cause(error))
    if late:
        now = f"{now} Releasing it needs a confirmation. {late}"
    return Account(what, now)


def waiting_behind(error: MessageError, ahead: FailureRow | None, error_queue: str) -> str:
    """What it waits for; empty where it does not, or not yet: on hold it waits for a person."""
    if ahead is None or error.state not in WAITING:
        return ""
    name = ahead.interface or "a message of unknown type"
    if key_order.ahead_of(error) is not None:
        return (
            f"It waits behind {name} at offset {ahead.offset:,}, which has the same key. Release "
            "or delete that one; this one follows by itself."
        )
    return (
        f"It waits behind {name} at offset {ahead.offset:,} of {ahead.queue}, because the error "
        f"queue {f'{error_queue} ' if error_queue else ''}keeps strict order. Release or delete "
        "that one; this one is tried within seconds of that."
    )


def waiting_hidden(error: MessageError, error_queue: str) -> str:
    """The same where that is out of scope."""
    if error.state not in WAITING:
        return ""
    queue = f"the error queue {error_queue}" if error_queue else "its error queue"
    return (
        f"It waits behind a message that you may not see, because {queue} keeps strict order. Ask "
        "somebody who may see all external systems to release or delete that one; this one is "
        "tried within seconds of that."
    )


def waiting_for_position(error: MessageError, place: QueuePartition | None) -> str:
    """The same where the position went back over it, and has not come past it again."""
    if error.state not in {ErrorState.READY, ErrorState.RETRY}:
        return ""
    if place is None or place.moved_at is None or place.topic_uuid != error.topic_uuid:
        return ""
    if error.offset <= place.next_offset or error.first_failed_at >= place.moved_at:
        return ""
    return (
        f"The position of its queue was moved back before it, and stands at {place.next_offset:,} "
        "now. It is tried by itself once the queue has come past it."
    )


def _cause(error: MessageError) -> str:
    """The code to mend; a tombstone has no text in which a key could be corrected."""
    if error.code == "SERVICE_DISABLED":
        return takers.lack_of(error.interface)
    if error.code == "SYSTEM_DISABLED" and error.queue.system and error.queue.system.enabled:
        return SYSTEM_ON_AGAIN
    is_key = error.code in {FlawCode.NO_KEY, FlawCode.KEY_TOO_LONG}
    return "BAD_KEY" if is_key and error.current_payload is None else error.code


def sentence_of(text: str) -> str:
    """The text of a failure with a full stop, where it has none."""
    sentence = text.strip()
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."
