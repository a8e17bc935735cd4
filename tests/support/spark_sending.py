"""What a task of Spark sends in tests; its workers import this, without Django."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spark_jobs.topics.producing import open_sender


def send_values(settings: Mapping[str, str], topic: str, share: Iterable[Any]) -> Iterator[int]:
    """Send the value of each row to a topic; how many are in Kafka."""
    sender = open_sender(settings)
    for row in share:
        sender.send(topic, None, bytes(row.value))
    yield sender.finish()
