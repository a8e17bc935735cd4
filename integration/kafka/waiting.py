"""How long the first waiting message has waited: one record read at each position."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from integration.kafka.source import open_source
from integration.models.provider import Provider

PATIENCE_SECONDS: Final = 3.0


def first_waiting(
    provider: Provider, topic: str, positions: Mapping[int, int]
) -> dict[int, datetime]:
    """Kafka's timestamp of the record at each position (partition -> next offset).

    A partition that gives nothing within three seconds is left out. No group is touched.
    Raises ProviderUnusableError.
    """
    found: dict[int, datetime] = {}
    source = open_source(provider, topic=topic, queue_name="waiting")
    try:
        source.attach(positions)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(found) < len(positions) and time.monotonic() < deadline:
            for partition, records in source.fetch(1, 0.2).records.items():
                stamp = records[0].timestamp_ms
                if stamp is not None:
                    found.setdefault(partition, datetime.fromtimestamp(stamp / 1000, UTC))
    finally:
        source.close()
    return found
