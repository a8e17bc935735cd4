"""Documents as the messages of a queue: which ids they have, and whether their topic takes them."""

from collections.abc import Mapping
from uuid import UUID

from integration.envelope.writing import PLAIN_BELOW
from spark_jobs.imports.mapping import Document, Rejected
from spark_jobs.imports.parameters import ImportParameters
from spark_jobs.imports.rows import Flaw


class Envelopes:
    """The messages of one run. Their ids are the run and the row's place in it: `<run>~<place>`."""

    def __init__(self, run: str, parameters: ImportParameters) -> None:
        self._run, self._target = str(UUID(run)), parameters.target

    def record(self, text: str, place: int) -> bytes:
        """The value of the record that a document becomes."""
        target = self._target
        assert target is not None  # noqa: S101 - nothing is sent without one
        return target.record(self.message_id(place), text)

    def around(self) -> Mapping[str, str | int]:
        """What stands around the payload and the place in all of them, and in which payloads."""
        target = self._target
        assert target is not None  # noqa: S101 - nothing is sent without one
        alike = target.alike
        return {
            "before": alike.before,
            "between": f'{alike.between}"{self.message_id("")}',
            "after": f'"{alike.after}',
            "plain_below": PLAIN_BELOW,
        }

    def message_id(self, place: int | str) -> str:
        return f"{self._run}~{place}"

    def fitting(self, became: Document | Rejected, place: int) -> Document | Rejected:
        """The same, but a document that its topic would refuse is rejected."""
        if self._target is None or isinstance(became, Rejected):
            return became
        size = self._target.excess(self.message_id(place), became.text)
        if not size:
            return became
        most = self._target.largest_bytes
        told = f"As a message it has {size:,} bytes, and the topic takes {most:,}."
        return Rejected(Flaw("ROW_TOO_LONG", told), became.text.encode(), became.text)
