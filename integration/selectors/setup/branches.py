"""The branches of a connection factory, for its page."""

from dataclasses import dataclass
from datetime import datetime

from integration.connections import lookup
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.policy.states import BranchState
from integration.xa import decisions
from integration.xa.branch import Branch
from integration.xa.errors import XaLogReplacedError


@dataclass(frozen=True, slots=True)
class BranchRow:
    """A branch; `choices` are what a person may decide about it."""

    xid: str
    state: BranchState
    started_at: datetime
    messages: int
    decider: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Branches:
    """All of a factory, the oldest first; or why they cannot be read.

    Where the log `is_replaced`, `decided` are the Xids that our databases have committed and that
    may not have been delivered.
    """

    rows: list[BranchRow]
    trouble: str = ""
    is_replaced: bool = False
    decided: tuple[str, ...] = ()


def of_factory(factory: ConnectionFactory) -> Branches:
    """Read the log of transactions."""
    try:
        resource = lookup(factory.name).xa()
        branches = resource.branches()
    except XaLogReplacedError as problem:
        return Branches([], _told(problem), is_replaced=True, decided=_decided(factory))
    except IntegrationError as problem:
        return Branches([], _told(problem))
    return Branches([_row(branch, is_ours=resource.is_ours(branch)) for branch in branches])


def _told(problem: IntegrationError) -> str:
    return f"{problem.code}: {problem}"


def _decided(factory: ConnectionFactory) -> tuple[str, ...]:
    return tuple(sorted(map(str, decisions.pending(factory.name))))


def _row(branch: Branch, *, is_ours: bool) -> BranchRow:
    decider = decisions.decider_of(branch.xid)
    choices: tuple[str, ...] = ()
    if branch.state in {BranchState.COMMITTED, BranchState.ROLLED_BACK}:
        decider, choices = "a person", ("forget",)
    elif decisions.database_of(branch.xid) is None:
        if branch.state is BranchState.PREPARED:
            choices = ("commit", "rollback")
        elif not is_ours:
            # Ours are rolled back by themselves once their time is over.
            choices = ("rollback",)
    elif branch.state is BranchState.PREPARED:
        # Refused unless Kafka refuses to deliver it.
        choices = ("forget",)
    return BranchRow(
        xid=str(branch.xid),
        state=branch.state,
        started_at=branch.started_at,
        messages=branch.place.count,
        decider=decider,
        choices=choices,
    )
