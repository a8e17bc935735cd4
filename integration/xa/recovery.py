"""Recovery: what processes that died have left of branches is brought to an end."""

import logging
from collections import Counter
from collections.abc import Callable

from django.db import DatabaseError

from integration.errors import IntegrationError
from integration.policy.states import BranchState
from integration.xa import decisions
from integration.xa.resource import XaResource

log = logging.getLogger(__name__)


def recover(resource: XaResource, should_stop: Callable[[], object] = lambda: None) -> Counter[str]:
    """Settle the branches that a database of ours has decided about; expire started ones.

    Prepared branches of other coordinators are left to them. Returns how many there were of each
    verdict, and of those that could not be settled now ("failed").
    """
    counts: Counter[str] = Counter()
    # Before the log is read: each of these belongs to a branch that was prepared earlier, so one
    # that the log does not have any more is over.
    decided = decisions.pending(resource.name)
    branches = resource.recover()
    for branch in branches:
        if should_stop():
            return counts
        if branch.state is not BranchState.PREPARED:
            counts[branch.state.lower()] += 1
            continue
        try:
            counts[decisions.settle(resource, branch.xid)] += 1
        except (DatabaseError, IntegrationError) as problem:
            counts["failed"] += 1
            log.warning("The branch %s cannot be settled now: %s", branch.xid, problem)
    for xid in decided.keys() - {branch.xid for branch in branches}:
        decisions.forget(xid, decided[xid])
    return counts
