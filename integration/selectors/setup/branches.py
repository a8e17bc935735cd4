"""The branches of a connection factory, for its page."""

from dataclasses import dataclass
from datetime import datetime

from integration.connections import lookup
from integration.errors import IntegrationError
from integration.models import ConnectionFactory
from integration.policy.states import BranchState
from integration.xa import decisions
from integration.xa.branch import Branch


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
    """All of a factory, the oldest first; or why they cannot be read."""

    rows: list[BranchRow]
    trouble: str = ""


def of_factory(factory: ConnectionFactory) -> Branches:
    """Read the log of transactions."""
    try:
        branches = lookup(factory.name).xa().branches()
    except IntegrationError as problem:
        return Branches([], f"{problem.code}: {problem}")
    return Branches([_row(branch) for branch in branches])


def _row(branch: Branch) -> BranchRow:
    using = decisions.database_of(branch.xid)
    decider = "another coordinator" if using is None else f"the database {using}"
    choices: tuple[str, ...] = ()
    if using is None and branch.state is BranchState.PREPARED:
        choices = ("commit", "rollback")
    elif branch.state in {BranchState.COMMITTED, BranchState.ROLLED_BACK}:
        decider, choices = "a person", ("forget",)
    elif using is not None and branch.state is BranchState.PREPARED:
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
