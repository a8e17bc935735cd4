"""Sentences about a released message: that it is tried now, or what it waits for."""

from typing import Final
from uuid import UUID

from crontasks.health.released import waits_for
from integration.policy.states import ErrorState
from integration.selectors.failures.account import NOW, sentence_of
from integration.selectors.failures.failure import FailureDetail, detail
from integration.selectors.scope import Scope

SOON: Final = "The engine tries it within seconds; this page shows the outcome."


def now_of(failure: FailureDetail) -> str:
    """The next step for this failure, for its page."""
    waits = _waits(failure)
    return f"It was released and is waiting. {waits}" if waits else failure.account.now


def what_follows_release(error_id: UUID, scope: Scope) -> str:
    """The sentence that follows the release of a message."""
    failure = detail(error_id, scope)
    if failure is None:
        return SOON
    is_behind = failure.is_behind or failure.account.now != NOW[ErrorState.READY]
    if is_behind and failure.state in {ErrorState.READY, ErrorState.PARKED}:
        return failure.account.now
    waits = _waits(failure)
    return f"It is waiting. {waits}" if waits else SOON


def _waits(failure: FailureDetail) -> str:
    """The reason for a wait, and what to do; empty where nothing stands in the way."""
    if failure.state is not ErrorState.READY or failure.is_behind:
        return ""
    link = waits_for(failure.error.queue, {failure.error.partition})
    return "" if link is None else f"{sentence_of(link.why)} {link.next_step}".strip()
