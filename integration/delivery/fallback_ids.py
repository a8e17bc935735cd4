"""The ids of messages that have none of their own: where each stood."""

from collections.abc import Mapping

from integration.delivery.snapshot import QueueSnapshot
from integration.envelope import topic_in_id
from integration.values import Record


class FallbackIds(dict[int, str]):
    """What the ids of a partition's messages begin with, by partition; the offset comes behind it.

    Another generation of a partition gives its offsets to other messages: see topic_in_id.
    """

    def __init__(self, queue: QueueSnapshot, generations: Mapping[int, int]) -> None:
        super().__init__()
        # Several queues may read from one JMS address, each with numbers of its own.
        self._place = queue.name if queue.is_jms else queue.topic
        self._provider = queue.provider_name
        self._generations = generations

    def __missing__(self, partition: int) -> str:
        topic = topic_in_id(self._place, self._generations.get(partition, 0))
        begun = self[partition] = f"{self._provider}~{topic}~{partition}~"
        return begun

    def of(self, record: Record) -> str:
        return f"{self[record.partition]}{record.offset}"
