"""Branches of two-phase commits: prepared transactions of the database, and what Kafka decided.

The name of a branch is in the metadata of the offset that its transaction of Kafka commits: once it
is there, the decision is to commit. Names are compared, never offsets alone: after a rewind or a
restore of the database an offset tells nothing.
"""

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

# PostgreSQL takes names of up to 199 bytes.
LONGEST_DEPLOYMENT: Final = 25
_TOLD_APART: Final = 8
LONGEST_ALIAS: Final = 20
_NAME: Final = re.compile(
    r"sluice:(?P<deployment>.+):(?P<queue>\d+):(?P<partition>\d+):(?P<next>\d+):(?P<epoch>\d+)"
    r":(?P<arrival>\d+):(?P<batch>[0-9a-f]{32})(?:@(?P<second>[\w.-]+)=(?P<xid>\d+))?"
)


class Decision(StrEnum):
    """The fate of a branch, as Kafka tells it."""

    COMMIT = "commit"
    ROLLBACK = "rollback"
    UNKNOWN = "unknown"  # Kafka has forgotten, or is ahead of this database: a person decides


@dataclass(frozen=True, slots=True)
class Second:
    """A batch's transaction in another database: its alias, and the number it has there."""

    alias: str
    xid: int


@dataclass(frozen=True, slots=True)
class Branch:
    """One batch whose transaction is prepared. `next_offset` is the position once it commits.

    `arrival` is the batch's number, which grows from one batch of the database to the next.

    As text it is the name of the prepared transaction. Those belong to the whole server, so that it
    tells the deployment as well. With a `second` the batch is in two databases, and a branch of its
    own stands prepared in the other one.
    """

    deployment: str
    queue: int
    partition: int
    next_offset: int
    epoch: int
    arrival: int
    batch: UUID
    second: Second | None = None

    def __str__(self) -> str:
        place = f"{self.queue}:{self.partition}:{self.next_offset}:{self.epoch}:{self.arrival}"
        also = "" if self.second is None else f"@{self.second.alias}={self.second.xid}"
        return f"{prefix(self.deployment)}{place}:{self.batch.hex}{also}"

    def name_in_second(self, home: str) -> str:
        """Return its name in the other database; `home` tells the first one: see `home_of`.

        Both may be of one server, which knows each name once, and several installations may write
        to one second database.
        """
        return f"{self}:{home}"


def prefix(deployment: str) -> str:
    """Return how the names of all branches of a deployment begin."""
    return f"sluice:{_short(deployment)}:"


def _short(deployment: str) -> str:
    """A deployment's name as branches have it: long ones that begin alike stay two."""
    if len(deployment) <= LONGEST_DEPLOYMENT:
        return deployment
    told = hashlib.sha256(deployment.encode()).hexdigest()[:_TOLD_APART]
    return f"{deployment[: LONGEST_DEPLOYMENT - _TOLD_APART - 1]}~{told}"


def branch_of(deployment: str, name: str) -> Branch | None:
    """As `branch_named`; None also for a name of another deployment, however alike the two are."""
    branch = branch_named(name)
    is_own = branch is not None and branch.deployment == _short(deployment)
    return branch if is_own else None


def branch_named(name: str) -> Branch | None:
    """Return the branch of that name; None for a name that is none of ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    return Branch(
        deployment=found["deployment"],
        queue=int(found["queue"]),
        partition=int(found["partition"]),
        next_offset=int(found["next"]),
        epoch=int(found["epoch"]),
        arrival=int(found["arrival"]),
        batch=UUID(found["batch"]),
        second=Second(found["second"], int(found["xid"])) if found["second"] else None,
    )


def decided(branch: Branch, mark: str | None) -> Decision:
    """Tell a branch's fate from the last decision that Kafka has for its partition.

    `mark` is that decision's branch, "" for none yet, None where Kafka has forgotten. Nothing is
    decided behind a branch while it is open: a later decision is of a database that went on, of
    which this one is an earlier state.
    """
    if mark == str(branch):
        return Decision.COMMIT
    if mark is None:
        return Decision.UNKNOWN
    last = branch_named(mark)
    if mark and last is None:
        return Decision.UNKNOWN
    is_later = last is not None and last.arrival >= branch.arrival
    return Decision.UNKNOWN if is_later else Decision.ROLLBACK


def home_of(database: str) -> str:
    """Return eight characters for a database, of whatever tells it from all others."""
    return hashlib.sha256(database.encode()).hexdigest()[:8]


def branch_in_second(name: str, home: str) -> Branch | None:
    """Return the branch of that name in a second database; None for one of another home."""
    whole, ours = name[: -len(home) - 1], f":{home}"
    return branch_named(whole) if name.endswith(ours) else None
