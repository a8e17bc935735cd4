"""The result of a check, as its page shows it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from integration.actions.check import Check, DocumentChange, Ending
from integration.envelope import read_unwrapped
from integration.policy.failure import FailureClass
from integration.selectors.failures.account import sentence_of
from integration.selectors.failures.diffs import Diff, difference
from integration.selectors.failures.payloads import PayloadView, bytes_as_text, show
from integration.selectors.masking.covers import Cover
from integration.selectors.masking.documents import masked_text
from integration.selectors.masking.made import Made
from integration.values import Outgoing

SENT_SHOWN: Final = 20
SAID: Final = 600
TITLES: Final[Mapping[Ending, tuple[str, str]]] = {
    Ending.APPLIED: ("success", "It would be applied."),
    Ending.SUPERSEDED: (
        "info",
        "It would change nothing: newer data of the same key is already stored (superseded).",
    ),
    Ending.FAILED: ("danger", "It would fail again."),
    Ending.REFUSED: (
        "danger",
        "The check was stopped because the handler tried to end its transaction.",
    ),
    Ending.KEPT: ("danger", "The check could not be undone."),
    Ending.TIMED_OUT: ("warning", "The check took too long, so it was stopped."),
    Ending.READABLE: (
        "info",
        "It can be sent. Only a release shows whether the partner accepts it.",
    ),
    Ending.NOT_RUN: ("warning", "It was not checked because its handler was not called."),
}
# What the engine does with a released message that fails so.
THEN: Final[Mapping[FailureClass, str]] = {
    FailureClass.PERMANENT: "It would go back on hold at once.",
    FailureClass.TRANSIENT: "The engine would retry it according to the queue's retry settings.",
    FailureClass.CONFLICT: "Other work had locked the same rows; the engine would try again.",
    FailureClass.DEPENDENCY: "The engine would retry it, at once when the missing data arrives.",
    FailureClass.OUTAGE: "The queue would wait until the outage is over; no retry is spent.",
    FailureClass.DISABLED: "It would wait until its service or system is switched on or installed.",
}


@dataclass(frozen=True, slots=True)
class CheckShown:
    """A check with its title and tone, what a failure says, what is stored and what is sent."""

    result: Check
    tone: str
    title: str
    said: str
    then: str
    document: Diff | None
    sent: list[tuple[str, str, PayloadView]]

    @property
    def has_run(self) -> bool:
        return self.result.ending in {Ending.APPLIED, Ending.SUPERSEDED}

    def repeats(self, texts: Iterable[str]) -> bool:
        """Return True when one of these texts already says what its failure says."""
        return bool(self.said) and self.said in {sentence_of(text[:SAID]) for text in texts}

    @property
    def more_sent(self) -> int:
        return len(self.result.sent) - len(self.sent)


def shown(result: Check, cover: Cover, made: Made | None = None) -> CheckShown:
    """Lay a check out for its page, to people who may see payloads.

    `cover` is that of the message: what its handler writes and sends may be made of its values.
    `made` tells what else is hidden of these; None where the message is revealed.
    """
    tone, title = TITLES[result.ending]
    result = covered(result, cover)
    return CheckShown(
        result=result,
        tone=tone,
        title=title,
        said=sentence_of(result.failure.text[:SAID]) if result.failure else "",
        then=_then(result),
        document=_change(result.document, cover, made),
        sent=[_sent(row, cover, made) for row in result.sent[:SENT_SHOWN]],
    )


def covered(result: Check, cover: Cover) -> Check:
    """The same check, its texts without what is hidden of the message."""
    failure, change = result.failure, result.document
    if failure is not None:
        text, detail = cover.text(failure.text, failure.code), cover.text(failure.detail)
        failure = replace(failure, text=text, detail=detail)
    if change is not None:
        change = replace(change, key=cover.text(change.key))
    return replace(result, failure=failure, document=change)


def _change(change: DocumentChange | None, cover: Cover, made: Made | None) -> Diff | None:
    """The stored document before and after; None, too, where it cannot be shown masked."""
    if change is None:
        return None
    mask = cover.mask if made is None else made.of_document(change.structure)
    texts = [masked_text(text, mask) for text in (change.before, change.after)]
    if None in texts:
        return None
    return difference(*(cover.text(text or "") for text in texts))


def _sent(row: Outgoing, cover: Cover, made: Made | None) -> tuple[str, str, PayloadView]:
    mask = cover.mask if made is None else made.of_sent(row)
    # Its channel may have put it into a retry wrapper.
    view = show(row.value, list(row.headers), read_unwrapped, mask=mask)
    covered_view = replace(view, pretty=cover.text(view.pretty), raw=cover.text(view.raw))
    return row.topic, cover.words.hide(mask.key_text(bytes_as_text(row.key))), covered_view


def _then(result: Check) -> str:
    """The effect of a release; not known if the message's handler was stopped."""
    if result.failure is None or result.ending is not Ending.FAILED:
        return ""
    return THEN.get(result.failure.kind, "")
