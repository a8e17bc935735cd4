"""Recovery: what processes that died have left of branches is brought to an end."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from django.db import DatabaseError, Error

from integration.errors import IntegrationError
from integration.policy.states import BranchState
from integration.xa import decisions
from integration.xa.branch import Branch
from integration.xa.decisions import Verdict
from integration.xa.resource import XaResource
from integration.xa.xid import Xid

log = logging.getLogger(__name__)

_OVER: Final = {Verdict.COMMIT, Verdict.ROLLBACK}


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found: how many branches of each verdict, and of those that failed now.

    `waiting` are prepared ones, the oldest first, that should have been over and are not.
    """

    counts: Counter[str] = field(default_factory=Counter)
    waiting: list[Branch] = field(default_factory=list)


def recover(
    resource: XaResource,
    should_stop: Callable[[], object] = lambda: None,
    is_current: Callable[[], bool] = lambda: True,
) -> Recovered:
    """Settle the branches that a database of ours has decided about; expire started ones.

    Prepared branches of other coordinators are left to them, and what a database has decided that
    is away now to a later recovery. While the resource is not the `is_current` one, no decision is
    removed: its branch may be in another log. Raises what the resource does, also DatabaseError.
    """
    found = Recovered()
    # Before the log is read: each of these belongs to a branch that was prepared earlier, so one
    # that the log does not have any more is over.
    decided = decisions.pending(resource.name)
    branches, oldest = resource.recover(), resource.oldest()
    for branch in branches:
        if should_stop():
            return found
        verdict = _settled(resource, branch)
        found.counts[verdict] += 1
        is_left = branch.state is BranchState.PREPARED and verdict not in _OVER
        if is_left and branch.started_at < oldest:
            found.waiting.append(branch)
    over = decided.keys() - {branch.xid for branch in branches}
    for xid in over if is_current() else ():
        _forget(xid, decided[xid])
    return found


def _forget(xid: Xid, using: str) -> None:
    try:
        decisions.forget(xid, using)
    except Error as problem:
        log.warning("The decision about %s cannot be removed now: %s", xid, problem)


def _settled(resource: XaResource, branch: Branch) -> str:
    if branch.state is not BranchState.PREPARED:
        return branch.state.lower()
    try:
        return decisions.settle(resource, branch.xid)
    except (DatabaseError, IntegrationError) as problem:
        log.warning("The branch %s cannot be settled now: %s", branch.xid, problem)
        return "failed"
