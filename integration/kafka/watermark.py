"""The id of the last batch under a transactional id, committed beside an offset; the cluster's."""

from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from integration.kafka.troubles import REFUSED, unreachable

# Its partition 0 is what the watermark is an offset of; nothing is ever written to it.
RELAY_TOPIC: Final = "sluice-relay"
MOST_EVENTS: Final = 20


def watermark_of(reader: Consumer, provider: str, seconds: float) -> str | None:
    """The id of the last batch in Kafka, "" for none yet, None when Kafka knows nothing of it.

    Of the transactional id that is the reader's group. Raises BrokerUnreachableError, also where
    nothing is answered within `seconds`.
    """
    try:
        # Reads committed only: the answer waits until an open transaction is decided.
        committed = reader.committed([TopicPartition(RELAY_TOPIC, 0)], seconds)[0]
    except KafkaException as e:
        raise unreachable(provider, _refusal_of(reader) or e) from e
    if committed.error is not None:
        raise unreachable(provider, KafkaException(committed.error))
    return None if committed.offset < 0 else committed.metadata or ""


def cluster_of(reader: Consumer, provider: str, seconds: float) -> str:
    """The id of the reader's cluster, "" where it tells none. Raises BrokerUnreachableError."""
    try:
        told = reader.list_topics(RELAY_TOPIC, seconds).cluster_id
    except KafkaException as e:
        raise unreachable(provider, e) from e
    # Not all that speaks Kafka's protocol has an id; its addresses may change and are none.
    return str(told or "")


def _refusal_of(reader: Consumer) -> KafkaException | None:
    """Why the group's coordinator was not found: the question itself just times out.

    The library tells it among the messages, of which there are none without an assignment.
    """
    for _ in range(MOST_EVENTS):
        event = reader.poll(0)
        error = None if event is None else event.error()
        if error is None:
            return None
        if error.code() in REFUSED:
            return KafkaException(error)
    return None
