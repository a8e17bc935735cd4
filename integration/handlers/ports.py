"""The ports of handlers to the tables: filled when Django starts, by `integration.composition`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from integration.message import Message
from integration.values import Outgoing

# (key, message, version or None) for the newness guard.
Claim = tuple[str, Message, int | datetime | None]


class Outbox(Protocol):
    """The place where messages wait for the relay."""

    def __call__(self, rows: Sequence[Outgoing]) -> None:
        """Insert in the transaction under way. Raises QueueLockTimeoutError for a strict queue."""


class NewnessGuard(Protocol):
    """The newest message of each (structure, key)."""

    def __call__(self, structure: str, claims: Sequence[Claim]) -> list[bool]:
        """Return whether each claim is the newest; see `claim_all`."""


class Arrivals(Protocol):
    """The memory of objects that have arrived, and those that wait for them."""

    def __call__(self, arrivals: Sequence[Any]) -> None:
        """Wake in the transaction under way what waits for these (see handlers.arrivals)."""


class Encoder(Protocol):
    """The schemas that published documents are written by."""

    def __call__(
        self,
        provider_id: int,
        registry: str,
        subject: str,
        version: int | None,
        document: object,
    ) -> bytes:
        """Return the record. Raises PayloadRefusedError, and OutageError where no schema is had."""


@dataclass(slots=True)
class Ports:
    """Unset until `fill` was called: handlers run in processes where Django has started."""

    outbox: Outbox
    guard: NewnessGuard
    arrivals: Arrivals
    encoder: Encoder


_filled: list[Ports] = []


def fill(ports: Ports) -> None:
    _filled[:] = [ports]


def filled() -> Ports:
    return _filled[0]


def claim_newest(
    structure: str, key: str, message: Message, *, version: int | datetime | None = None
) -> bool:
    """Return whether `message` is the newest for (structure, key); if so lock it until the commit.

    For handlers that write tables of their own: write only when it is True, else return
    Superseded(). Raises UnknownStructureError.
    """
    return claim_all(structure, [(key, message, version)])[0]


def claim_all(structure: str, claims: Sequence[Claim]) -> list[bool]:
    """Claim (key, message, version) of a whole batch like claim_newest, mostly in one statement.

    Of several claims of one key only the newest can be True. Raises UnknownStructureError, and
    PermanentError BAD_VERSION for a version that is no integer or timestamp.
    """
    return filled().guard(structure, claims)
