"""What comes to many idle partitions of one cluster, without a position or a group moving."""

import contextlib
import time
from collections.abc import Collection, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from django.conf import settings

from integration.kafka.client import LITTLE, Connection, bounded, connection, new_consumer
from integration.kafka.troubles import END_REACHED, ONE_BROKER, RAISED
from integration.models.provider import Provider

Place = tuple[str, int]
"""topic and partition"""

AT_ONCE: Final = 1_000
# How long a request rests at a broker. It names every place, and so does the answer; a record is
# told at once, and only a place that is added waits for the request to come back.
REST_MS: Final = 500
# After an error nothing is promised for so long.
TROUBLE_SECONDS: Final = 15.0
CLOSE_SECONDS: Final = 2.0


class Arrivals:
    """Waits for the first committed record at each place that is watched.

    Records of open and aborted transactions and transaction markers are none. A place that cannot
    be read, because its topic or its offset is gone, has something to look at as well. Make it in
    the process that uses it, after any fork; one thread at a time may use it.
    """

    def __init__(self, to: Connection) -> None:
        """Raises ProviderUnusableError."""
        self._watched: dict[Place, int] = {}
        self._troubled_at = float("-inf")
        group = f"{settings.SLUICE_DEPLOYMENT}-idle"
        mine = {**LITTLE, "fetch.wait.max.ms": REST_MS, "error_cb": self._notice}
        self._consumer: Consumer = new_consumer(to, group, mine)

    def watch(self, places: Mapping[Place, int]) -> None:
        """Watch exactly these (place -> next offset). Raises KafkaException."""
        changed = {place for place, offset in self._watched.items() if places.get(place) != offset}
        self._forget(changed)
        added = {place: offset for place, offset in places.items() if place not in self._watched}
        if added:
            self._consumer.incremental_assign([TopicPartition(*p, o) for p, o in added.items()])
            self._watched |= added

    def wait(self, seconds: float) -> set[Place]:
        """Return the places that have something; they are not watched any more. Never raises."""
        try:
            first = self._consumer.poll(seconds)
            messages = [] if first is None else [first, *self._consumer.consume(AT_ONCE, 0)]
            came = {place for message in messages if (place := _place_of(message)) is not None}
            came &= self._watched.keys()
            self._forget(came)
        except RAISED:
            self._troubled_at = time.monotonic()
            return set()
        return came

    def at_end(self) -> set[Place]:
        """Return the places whose logs end where they are watched, by the brokers' last answers.

        What lies in an open transaction lies behind that, too. Never raises.
        """
        try:
            return {place for place, offset in self._watched.items() if self._end(place) == offset}
        except RAISED:
            return set()

    def _end(self, place: Place) -> int:
        return self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)[1]

    def is_sure(self) -> bool:
        """Return whether the cluster answers, as far as this client has noticed."""
        return time.monotonic() - self._troubled_at > TROUBLE_SECONDS

    def _forget(self, places: Collection[Place]) -> None:
        if places:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in places])
            for place in places:
                del self._watched[place]

    def _notice(self, error: KafkaError) -> None:
        # A callback that raised would make the client throw away what it has fetched.
        with contextlib.suppress(Exception):
            if error.code() not in ONE_BROKER:
                self._troubled_at = time.monotonic()

    def close(self) -> None:
        with contextlib.suppress(KafkaException, RuntimeError):
            bounded(self._consumer.close, CLOSE_SECONDS)


def arrivals_of(provider: Provider) -> Arrivals:
    """Make a client that watches a provider's topics. Raises ProviderUnusableError."""
    return Arrivals(connection(provider))


def _place_of(message: Message) -> Place | None:
    topic, partition, error = message.topic(), message.partition(), message.error()
    if topic is None or partition is None or partition < 0:
        return None
    return None if error is not None and error.code() == END_REACHED else (topic, partition)
