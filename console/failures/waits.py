"""What is said of a released message: that it is tried now, or what it waits for."""

from typing import Final
from uuid import UUID

from crontasks.health.released import waits_for
from integration.policy.states import ErrorState
from integration.selectors.failures.failure import FailureDetail, detail, sentence_of
from integration.selectors.scope import Scope

SOON: Final = "The engine tries it within seconds; this page shows how it ends."


def now_of(found: FailureDetail) -> str:
    """What to do now with this failure, for its page."""
    waits = _waits(found)
    return f"It was released and waits. {waits}" if waits else found.account.now


def what_follows_release(error_id: UUID, scope: Scope) -> str:
    """How it goes on with a message that was released this moment."""
    found = detail(error_id, scope)
    if found is None:
        return SOON
    if found.ahead is not None and found.state is ErrorState.READY:
        return found.account.now
    waits = _waits(found)
    return f"It waits. {waits}" if waits else SOON


def _waits(found: FailureDetail) -> str:
    """Why it is not tried now, and what to do; empty where nothing stands in the way."""
    if found.state is not ErrorState.READY or found.ahead is not None:
        return ""
    link = waits_for(found.error.queue, {found.error.partition})
    return "" if link is None else f"{sentence_of(link.why)} {link.next_step}".strip()
