"""A branch as the log of transactions has it."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from integration.policy.states import BranchState
from integration.xa.xid import Xid


class Vote(StrEnum):
    """What a resource answers to `prepare`."""

    READY = "XA_OK"
    READ_ONLY = "XA_RDONLY"  # nothing was sent: it takes no part in the second phase


@dataclass(frozen=True, slots=True)
class Place:
    """Where a branch's messages are in the side topic; others' may lie between the two ends."""

    partition: int
    first: int
    last: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch, its messages, and under which transactional id alone it may be changed.

    `mark` is its own for good, also where its Xid should be given again.
    """

    xid: Xid
    state: BranchState
    owner: str
    mark: str
    place: Place
    started_at: datetime

    def becoming(self, state: BranchState) -> "Branch":
        return replace(self, state=state)

    def written(self) -> bytes:
        place = self.place
        return json.dumps(
            {
                "state": self.state,
                "owner": self.owner,
                "mark": self.mark,
                "side": [place.partition, place.first, place.last, place.count],
                "started_at": self.started_at.isoformat(),
            }
        ).encode()

    @classmethod
    def read(cls, key: bytes, value: bytes) -> "Branch":
        """Read what `written` gave. Raises ValueError, KeyError, XidInvalidError."""
        found: dict[str, Any] = json.loads(value)
        return cls(
            xid=Xid.parse(key.decode()),
            state=BranchState(found["state"]),
            owner=found["owner"],
            mark=found["mark"],
            place=Place(*found["side"]),
            started_at=datetime.fromisoformat(found["started_at"]),
        )
