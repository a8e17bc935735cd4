"""Words of the pages for operations: verbs, states and their badges, the ends of messages."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from integration.policy.operations import Became, ItemOutcome
from integration.policy.states import OperationState


class Wording(NamedTuple):
    """The words of a verb: on its button, when it is done, and for its effect."""

    do: str
    done: str
    effect: str


WORDS: Final[Mapping[str, Wording]] = {
    "release": Wording(
        "Release", "released", "The engine tries them again, with a fresh budget of retries."
    ),
    "hold": Wording("Hold", "put on hold", "Nothing happens to them until someone decides."),
    "delete": Wording(
        "Delete", "deleted", "They will not be applied. They can be restored until cleanup."
    ),
    "restore": Wording("Restore", "restored", "They are on hold again."),
    "edit": Wording(
        "Edit",
        "changed",
        "The same change is made in each document. The originals are kept, byte for byte.",
    ),
    "send back": Wording(
        "Send back",
        "sent back",
        "Each is written once to the topic it came from, as it is now, and closed here. Whoever "
        "reads that topic gets it once more.",
    ),
}
STATES: Final = {
    OperationState.PLANNED: ("secondary", "·", "Planned"),
    OperationState.RUNNING: ("azure", "◆", "Running"),
    OperationState.PAUSED: ("yellow", "‖", "Paused"),
    OperationState.DONE: ("green", "✓", "Done"),
    OperationState.CANCELLED: ("secondary", "✕", "Cancelled"),
}
OUTCOMES: Final[Mapping[str, str]] = {
    "": "Its turn has not come",
    ItemOutcome.DONE: "Done",
    ItemOutcome.WRONG_STATE: "Left alone: not possible from its state",
    ItemOutcome.MOVED_ON: "Left alone: changed since it was chosen",
    ItemOutcome.GONE: "Left alone: not in the error table any more",
    ItemOutcome.IN_WORK: "Left alone: it was being worked on",
    ItemOutcome.LATE: "Left alone: it would be applied after newer messages",
    ItemOutcome.INVALID: "Left alone: the change does not fit",
    ItemOutcome.REFUSED: "Left alone: it cannot be sent back",
    ItemOutcome.UNCHANGED: "Left alone: it has that value already",
}
BECAME: Final = {
    Became.RESOLVED: ("green", "✓", "Resolved"),
    Became.FAILED: ("red", "!", "Failed again"),
    Became.WAITING: ("azure", "…", "Not tried yet"),
    Became.KEPT: ("secondary", "·", "As it was left"),
    Became.MOVED: ("secondary", "→", "Changed since"),
    Became.GONE: ("secondary", "✕", "Cleaned up"),
}
