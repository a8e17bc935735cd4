"""Documents as the messages of a queue: the envelope, the message's id, and the record's key."""

from typing import Final
from uuid import UUID

from integration.envelope import Outgoing, write
from spark_jobs.imports.mapping import Document, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Flaw

# What a record has beside its value: key, header and the like, with room to spare.
_BESIDE_BYTES: Final = 2_048


class Envelopes:
    """The messages of one run. Their ids are the run and the row's place in it: `<run>~<place>`."""

    def __init__(self, run: str, parameters: ImportParameters) -> None:
        self._run, self._target = UUID(run), parameters.target

    def record(self, text: str, place: int) -> bytes:
        """The value of the record that a document becomes."""
        target = self._target
        assert target is not None  # noqa: S101 - nothing is sent without one
        return write(
            Outgoing(
                interface=target.interface,
                sender=target.sender,
                destination=target.destination,
                topic=target.topic,
                message_id=self.message_id(place),
                payload=text,
            )
        )

    def message_id(self, place: int) -> str:
        return f"{self._run}~{place}"

    def fitting(self, became: Document | Rejected, place: int) -> Document | Rejected:
        """The same, but a document that its topic would refuse is rejected."""
        most = 0 if self._target is None else self._target.largest_bytes
        if not most or isinstance(became, Rejected):
            return became
        # In the worst case each sign is escaped: a short text cannot be too large.
        if 6 * len(became.text) + _BESIDE_BYTES <= most:
            return became
        size = len(self.record(became.text, place)) + _BESIDE_BYTES
        if size <= most:
            return became
        told = f"As a message it has {size:,} bytes, and the topic takes {most:,}."
        return Rejected(Flaw("ROW_TOO_LONG", told), became.text.encode(), became.text)
