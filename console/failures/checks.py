"""What a check found, as its page shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from integration.actions.check import Check, Ending
from integration.policy.failure import FailureClass
from integration.selectors.failures.diffs import Diff, difference
from integration.selectors.failures.failure import sentence_of
from integration.selectors.failures.payloads import PayloadView, bytes_as_text, show

SENT_SHOWN: Final = 20
SAID: Final = 600
TITLES: Final[Mapping[Ending, tuple[str, str]]] = {
    Ending.APPLIED: ("success", "It would be applied."),
    Ending.SUPERSEDED: (
        "info",
        "It would change nothing: newer data of the same key is stored already (superseded).",
    ),
    Ending.FAILED: ("danger", "It would fail again."),
    Ending.REFUSED: (
        "danger",
        "The check was stopped: the handler tried to end its transaction.",
    ),
    Ending.KEPT: ("danger", "The check could not be undone."),
    Ending.TIMED_OUT: ("warning", "The check took too long, so it was stopped."),
    Ending.READABLE: (
        "info",
        "It can be sent. Whether the partner takes it shows only when it is released.",
    ),
    Ending.NOT_RUN: ("warning", "It was not checked: its handler was not called."),
}
# What the engine does with a released message that fails so.
THEN: Final[Mapping[FailureClass, str]] = {
    FailureClass.PERMANENT: "It would be on hold again at once.",
    FailureClass.TRANSIENT: "The engine would try it again, as the queue's retries say.",
    FailureClass.CONFLICT: "Other work held the same rows; the engine would try again.",
    FailureClass.DEPENDENCY: "The engine would try it again, at once when that is there.",
    FailureClass.OUTAGE: "The queue would wait until what is down is back; no retry is spent.",
    FailureClass.DISABLED: "It would wait until what is named is switched on or installed.",
}


@dataclass(frozen=True, slots=True)
class CheckShown:
    """A check with its title and tone, what a failure says, what is stored and what is sent."""

    found: Check
    tone: str
    title: str
    said: str
    then: str
    document: Diff | None
    sent: list[tuple[str, str, PayloadView]]

    @property
    def has_run(self) -> bool:
        return self.found.ending in {Ending.APPLIED, Ending.SUPERSEDED}

    def repeats(self, texts: Iterable[str]) -> bool:
        """Whether its failure says what one of these texts says already."""
        return bool(self.said) and self.said in {sentence_of(text[:SAID]) for text in texts}

    @property
    def more_sent(self) -> int:
        return len(self.found.sent) - len(self.sent)


def shown(found: Check) -> CheckShown:
    """Lay a check out for its page, to people who may see payloads."""
    tone, title = TITLES[found.ending]
    change = found.document
    return CheckShown(
        found=found,
        tone=tone,
        title=title,
        said=sentence_of(found.failure.text[:SAID]) if found.failure else "",
        then=_then(found),
        document=None if change is None else difference(change.before, change.after),
        sent=[
            (row.topic, bytes_as_text(row.key), show(row.value, list(row.headers)))
            for row in found.sent[:SENT_SHOWN]
        ],
    )


def _then(found: Check) -> str:
    """What a release would come to; not known of a message whose handler was not let through."""
    if found.failure is None or found.ending is not Ending.FAILED:
        return ""
    return THEN.get(found.failure.kind, "")
