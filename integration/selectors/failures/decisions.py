"""The decisions about a failed message, as they are shown."""

from collections.abc import Iterable

from integration.models import ErrorChange
from integration.policy.moves import FAILED_AGAIN, GIVE_UP


def in_own_words(changes: Iterable[ErrorChange]) -> list[ErrorChange]:
    """The same decisions, without what earlier versions quoted of the failure in the reason.

    It may repeat a masked value, and nobody knows which once the failure is gone.
    """
    shown = list(changes)
    for change in shown:
        if change.action == GIVE_UP.action:
            own, ending, _ = change.reason.partition(FAILED_AGAIN)
            change.reason = own + ending
    return shown
