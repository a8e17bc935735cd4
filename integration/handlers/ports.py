"""What handlers need of the tables: filled when Django starts, by `integration.composition`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from integration.message import Message
from integration.values import Outgoing

# (key, message, version or None) for the newness guard.
Claim = tuple[str, Message, int | datetime | None]


class Outbox(Protocol):
    """Where messages wait for the relay."""

    def __call__(self, rows: Sequence[Outgoing]) -> None:
        """Insert in the transaction under way. Raises QueueLockTimeoutError for a strict queue."""


class NewnessGuard(Protocol):
    """The newest message of each (structure, key)."""

    def __call__(self, structure: str, claims: Sequence[Claim]) -> list[bool]:
        """Whether each claim is the newest; see `claims.claim_all`."""


@dataclass(slots=True)
class Ports:
    """Unset until `fill` was called: handlers run in processes where Django has started."""

    outbox: Outbox
    guard: NewnessGuard


_filled: list[Ports] = []


def fill(ports: Ports) -> None:
    _filled[:] = [ports]


def filled() -> Ports:
    return _filled[0]
