"""Records that Kafka will never take as they are, and topics that nobody knows."""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError

from integration.delivery.relay.ports import OutgoingRow, Refused, Verdict
from integration.kafka.troubles import RAISED, UNKNOWN_TOPIC, sentence

ASK_SECONDS: Final = 5.0
# Finding out that nobody knows a topic takes 2 s, as it may be on its way to every broker. For
# the rows that follow to it, one question is enough for a while.
UNKNOWN_SECONDS: Final = 10.0


def refused_by(index: int, error: KafkaError) -> Refused:
    """The verdict for the row at `index`."""
    return Refused(index, error.name().lstrip("_"), sentence(error))


# A partition that a known topic does not have is found out at once.
_NOBODY_KNOWS: Final = frozenset(
    refused_by(0, KafkaError(code)).code
    for code in UNKNOWN_TOPIC - {KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001 - the library's
)


class UnknownTopics:
    """Topics that were just found unknown, so that their next rows need no try of their own."""

    def __init__(self) -> None:
        self._found_at: dict[str, float] = {}

    def remember(self, verdict: Verdict, rows: Sequence[OutgoingRow]) -> None:
        """Note the topic of a row that was refused because nobody knows it."""
        if isinstance(verdict, Refused) and verdict.code in _NOBODY_KNOWS:
            self._found_at[rows[verdict.index].topic] = time.monotonic()

    def first_in(self, rows: Sequence[OutgoingRow], reader: Consumer) -> Refused | None:
        """The first row to such a topic, if a broker still does not know it. Raises nothing."""
        now = time.monotonic()
        for topic in [t for t, at in self._found_at.items() if now - at > UNKNOWN_SECONDS]:
            del self._found_at[topic]
        for index, row in enumerate(rows if self._found_at else ()):
            if row.topic in self._found_at:
                error = _asked(row.topic, reader)
                if error is not None:
                    return refused_by(index, error)
                del self._found_at[row.topic]
        return None


def _asked(topic: str, reader: Consumer) -> KafkaError | None:
    """Return why a broker does not know the topic; None when it does, or does not tell."""
    try:
        metadata = reader.list_topics(topic, ASK_SECONDS).topics[topic]
    except (*RAISED, KeyError):
        return None
    error: KafkaError | None = metadata.error
    return error if error is not None and error.code() in UNKNOWN_TOPIC else None
