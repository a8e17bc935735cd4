"""What comes to many idle partitions of one cluster, without a position or a group moving."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from django.conf import settings

from integration.kafka.client import LITTLE, Connection, bounded, connection, new_consumer
from integration.kafka.troubles import END_REACHED, ONE_BROKER, RAISED
from integration.models.provider import Provider

Place = tuple[str, int]
"""topic and partition"""

# As many may lie at the client before it leaves their place out of a request: one that did not name
# all places would rest all the same, and say nothing of the others.
AT_ONCE: Final = 1_000
# How long a request rests at a broker. It names every place of its client, and so does the answer;
# a record is told at once, but a place that is added waits for the request to come back. So there
# are two clients: what is new waits little beside few others, what stays is asked for seldom.
NEW_REST_MS: Final = 100
SETTLED_REST_MS: Final = 8_000
# A place that stays is handed on after so long, together with others.
MOVE_SECONDS: Final = 5.0
# What was handed on is in a request by then: the one before, which did not name it, has come back;
# and so has the next where the client had to ask first, behind that one, whose leader's it is.
SURE_SECONDS: Final = 2 * SETTLED_REST_MS / 1_000 + 2.0
# While both clients have places, each is listened to in turn for so long.
TURN_SECONDS: Final = 0.03
# The default of the client library.
SOCKET_TIMEOUT_MS: Final = 60_000
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
        self._moved_at = time.monotonic()
        self._handed_on: dict[Place, float] = {}
        self._new = _Watch(to, "idle", NEW_REST_MS, self._notice)
        self._settled = _Watch(to, "idle-settled", SETTLED_REST_MS, self._notice)

    def watch(self, places: Mapping[Place, int]) -> None:
        """Watch exactly these (place -> next offset). Raises KafkaException."""
        changed = {place for place, offset in self._watched.items() if places.get(place) != offset}
        self._forget(changed)
        added = {place: offset for place, offset in places.items() if place not in self._watched}
        self._new.add(added)
        self._watched |= added
        self._hand_on()

    def wait(self, seconds: float) -> set[Place]:
        """Return the places that have something; they are not watched any more. Never raises."""
        end = time.monotonic() + seconds
        try:
            came = self._came(end)
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
            return {
                place
                for place, offset in self._watched.items()
                if (self._new if place in self._new.places else self._settled).end(place) == offset
            }
        except RAISED:
            return set()

    def is_sure(self) -> bool:
        """Return whether the cluster answers, as far as the clients have noticed."""
        return time.monotonic() - self._troubled_at > TROUBLE_SECONDS

    def _came(self, end: float) -> set[Place]:
        while True:
            left = max(0.0, end - time.monotonic())
            turn = min(left, TURN_SECONDS)
            came = self._new.came(turn) if self._new.places else set()
            came |= self._settled.came(0 if came else turn if self._new.places else left)
            came &= self._watched.keys()
            if came or time.monotonic() >= end:
                return came

    def _hand_on(self) -> None:
        """Hand on what stays; both clients name it until the one that takes it surely does."""
        now = time.monotonic()
        if now - self._moved_at >= MOVE_SECONDS:
            self._moved_at = now
            stay = self._new.places - self._settled.places
            self._settled.add({place: self._watched[place] for place in stay})
            self._handed_on |= dict.fromkeys(stay, now)
        both = self._new.places & self._settled.places
        self._new.remove({place for place in both if now - self._handed_on[place] > SURE_SECONDS})

    def _forget(self, places: Collection[Place]) -> None:
        for client in (self._new, self._settled):
            client.remove(client.places.intersection(places))
        for place in places:
            del self._watched[place]
            self._handed_on.pop(place, None)

    def _notice(self, error: KafkaError) -> None:
        # A callback that raised would make the client throw away what it has fetched.
        with contextlib.suppress(Exception):
            if error.code() not in ONE_BROKER:
                self._troubled_at = time.monotonic()

    def close(self) -> None:
        for client in (self._new, self._settled):
            client.close()


class _Watch:
    """One client, and the places that its requests name."""

    def __init__(
        self, to: Connection, name: str, rest_ms: int, notice: Callable[[KafkaError], None]
    ) -> None:
        self.places: set[Place] = set()
        group = f"{settings.SLUICE_DEPLOYMENT}-{name}"
        # What waits behind a request that rests shall not be given up.
        longest_ms = int(to.properties.get("socket.timeout.ms", SOCKET_TIMEOUT_MS)) // 2
        mine = {"fetch.wait.max.ms": min(rest_ms, longest_ms), "queued.min.messages": AT_ONCE}
        self._consumer: Consumer = new_consumer(to, group, {**LITTLE, **mine, "error_cb": notice})

    def add(self, places: Mapping[Place, int]) -> None:
        """Name these from the next request on (place -> offset). Raises KafkaException."""
        if places:
            self._consumer.incremental_assign([TopicPartition(*p, o) for p, o in places.items()])
            self.places.update(places)

    def remove(self, places: Collection[Place]) -> None:
        """Name these no more. Raises KafkaException."""
        if places:
            self._consumer.incremental_unassign([TopicPartition(*place) for place in places])
            self.places.difference_update(places)

    def came(self, seconds: float) -> set[Place]:
        """Return the places of what comes within this time. Raises as the client does."""
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(AT_ONCE, 0)]
        return {place for message in messages if (place := _place_of(message)) is not None}

    def end(self, place: Place) -> int:
        """Return where its log ends by the last answer; below zero before the first."""
        return self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)[1]

    def close(self) -> None:
        """Wait for the client to end, a moment at most. Never raises."""
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
