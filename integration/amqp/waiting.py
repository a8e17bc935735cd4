"""What waits at a JMS address, as a browse has found it: nothing of it was taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from integration.values import Record

USUAL_PRIORITY: Final = 4


class Limits(NamedTuple):
    """Where a browse ends at the latest: so many messages, bytes of all of them, and seconds."""

    messages: int
    size: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Browsed:
    """Messages as they came, in the broker's order. Unless it `is_all`, more may wait.

    `is_cut`: the next one alone would have gone beyond the size.
    """

    messages: Sequence[bytes]
    is_all: bool
    is_cut: bool = False

    @property
    def count(self) -> int:
        """So many wait at least."""
        return len(self.messages) + self.is_cut


class Property(NamedTuple):
    """A property that its sender gave, with JMS's name of its type."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JmsMessage:
    """One message in JMS's words; what it does not say is empty, or None.

    `record` is what a run of a queue would make of it. `deliveries` is the broker's count of those
    that failed; Artemis tells one less of them to whoever looks than to whoever reads.
    """

    record: Record
    size: int
    kind: str = ""
    message_id: str = ""
    jms_type: str = ""
    priority: int = USUAL_PRIORITY
    deliveries: int = 0
    sent_at: datetime | None = None
    expires_at: datetime | None = None
    correlation_id: str = ""
    reply_to: str = ""
    group_id: str = ""
    group_sequence: int = 0
    user: str = ""
    properties: tuple[Property, ...] = ()
