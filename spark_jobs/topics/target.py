"""The queue that a job writes its rows into: as records of its topic, in the envelope."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from integration.envelope import Alike, Outgoing

# The bytes of a record beside its value: key, header and the like, with room to spare.
BESIDE_BYTES: Final = 2_048
# In the worst case each sign is escaped.
_BYTES_A_SIGN: Final = 6
# Below a topic's own limit one large record is refused alone, and not a packet of many with it.
_PACKET_BYTES: Final = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Target:
    """A queue that takes documents, as it was when the run was asked for.

    `interface`, `sender` and `destination` stand in their envelopes. `largest_bytes` is the
    largest record that its topic takes; 0 where nobody knows.
    """

    queue: int
    topic: str
    interface: str = ""
    sender: str = ""
    destination: str = ""
    largest_bytes: int = 0

    @property
    def packet_bytes(self) -> int:
        """The size of a packet of records, at most, in bytes."""
        return min(self.largest_bytes or _PACKET_BYTES, _PACKET_BYTES)

    def record(self, message_id: str, payload: str) -> bytes:
        """The value of the record that a document becomes."""
        return self.alike.write(message_id, payload)

    def excess(self, message_id: str, payload: str) -> int:
        """Return the bytes the record would have if that is more than the topic takes, else 0."""
        most = self.largest_bytes
        if not most or _BYTES_A_SIGN * len(payload) + BESIDE_BYTES <= most:
            return 0
        size = len(self.record(message_id, payload)) + BESIDE_BYTES
        return size if size > most else 0

    @cached_property
    def alike(self) -> Alike:
        """The facts that all these records have in common."""
        return Alike(
            Outgoing(
                interface=self.interface,
                sender=self.sender,
                destination=self.destination,
                topic=self.topic,
                message_id="",
                payload="",
            )
        )
