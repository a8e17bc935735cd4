"""What the engine asks of the world.

Each port has an in-memory twin in delivery.memory; one contract suite runs over the twin and
the real adapter.
"""

from collections.abc import Mapping
from typing import Protocol

from integration.delivery.values import Fetched, TopicFacts


class Source(Protocol):
    """Kafka as one run sees it: assigned partitions of one topic, no consumer group."""

    def attach(self, positions: Mapping[int, int]) -> None:
        """Read from exactly these offsets on (partition -> next offset).

        Replaces what was attached before; with an empty mapping nothing is read. May be called
        again at any time; records fetched before for a partition that stays attached at the
        same place may be delivered again from the new position only.
        """

    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        """At most `limit` records, waiting up to `wait_seconds` for the first.

        Returns as soon as something is there. Never raises for what Kafka says: that is a
        Trouble. A partition is `drained` when its end was reached after the returned records.
        Only committed transactions are returned; offsets may have gaps.
        """

    def facts(self) -> TopicFacts | None:
        """Topic UUID and watermarks asked from the broker now; None when the topic is gone.

        Raises BrokerUnreachableError when nobody answers within 5 s.
        """

    def mirror(self, positions: Mapping[int, int]) -> None:
        """Copy positions into the mirror group for lag tools; failures are logged, never raised."""

    def close(self) -> None:
        """Leave; may be called twice."""
