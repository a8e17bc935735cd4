"""The run as a member of a consumer group: what the group lets it try, and nothing else.

The member is a client of its own, in a thread of its own: it answers the group at once, however
long a batch takes, and reads no record. What it was assigned, it takes up paused.
"""

import contextlib
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from django.conf import settings

from integration.kafka.client import Connection, member_properties, new_client
from integration.kafka.errors import ProviderUnusableError
from integration.kafka.troubles import (
    LEFT_BEHIND,
    PASSING,
    RAISED,
    UNAVAILABLE,
    sentence,
    words_of,
)
from integration.values import Assignment

log = logging.getLogger(__name__)

TURN_SECONDS: Final = 0.1
# To leave the group takes a request; a broker that is away is not waited for.
CLOSE_SECONDS: Final = 2.0


class Membership:
    """One member of a group, from the first question on. Make it after any fork.

    Every call of the client is made by its thread, since the library lets a second one wait
    without a limit. Callbacks note what they are told; none of them can raise, as that would come
    out of the call that serves it and leave the group without an answer. `is_away` tells of a
    refusal that it is no decision of the group: no broker was to be reached.
    """

    def __init__(self, to: Connection, topic: str, group: str, protocol: str) -> None:
        self.group = group
        self._to, self._topic, self._protocol = to, topic, protocol
        self._given: frozenset[int] = frozenset()
        self._told = Assignment()
        self._has_news = self._has_joined = False
        self._trouble = ""
        self.is_away = False
        self._positions: Mapping[int, int] = {}
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def assigned(self) -> Assignment | None:
        """Return what may be tried now, joining at first; None while the group refuses us."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="group member", daemon=True)
            self._thread.start()
        return None if self.refusal else self._told

    @property
    def refusal(self) -> str:
        """Return why the group cannot be joined; empty once it was, and until anything is known."""
        return "" if self._has_joined else self._trouble

    def commit(self, positions: Mapping[int, int]) -> None:
        """Leave positions for the next turn: only a member may commit to a group that has some."""
        self._positions = dict(positions)

    def close(self) -> None:
        """Leave the group; may be called twice."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        properties = member_properties(
            self._to, self.group, self._protocol, settings.SLUICE_LEASE_SECONDS
        )
        callbacks = {"error_cb": self._notice, "on_commit": self._committed}
        try:
            consumer = new_client(self._to, {**properties, **callbacks})
        except ProviderUnusableError as e:
            self._trouble = str(e)
            return
        try:
            self._serve(consumer)
        except (*RAISED, RuntimeError) as e:
            self._trouble = words_of(e)
        finally:
            self._told = Assignment()
            with contextlib.suppress(*RAISED, RuntimeError):
                consumer.close()

    def _serve(self, consumer: Consumer) -> None:
        consumer.subscribe(
            [self._topic],
            on_assign=self._assign,
            on_revoke=self._take_back,
            on_lost=self._take_back,
        )
        while not self._over.is_set():
            message = consumer.poll(TURN_SECONDS)
            error = None if message is None else message.error()
            if error is not None:
                self._notice(error)
            if self._has_news:
                # Also where it got back what it had: who was lost is another member now.
                self._has_news = False
                self._told = Assignment(consumer.memberid() or "", self._given)
            self._commit(consumer)
        self._commit(consumer)

    def _commit(self, consumer: Consumer) -> None:
        positions, self._positions = self._positions, {}
        if not positions:
            return
        places = [TopicPartition(self._topic, p, offset) for p, offset in positions.items()]
        try:
            consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as e:
            log.warning("The position for lag tools was not written: %s", e)

    def _assign(self, consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        with contextlib.suppress(Exception):
            # Nothing is asked about committed positions, and nothing read: the pause comes right
            # behind, and what is fetched before it is thrown away.
            places = [TopicPartition(p.topic, p.partition, OFFSET_END) for p in partitions]
            consumer.incremental_assign(places)
            consumer.pause(places)
        with contextlib.suppress(Exception):
            self._given |= {place.partition for place in partitions}
            self._has_news, self._has_joined, self._trouble = True, True, ""

    def _take_back(self, _consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
        """Note what was revoked or lost; the library takes it from the client by itself."""
        with contextlib.suppress(Exception):
            self._given -= {place.partition for place in partitions}
            self._has_news = True

    def _notice(self, error: KafkaError) -> None:
        with contextlib.suppress(Exception):
            if error.code() in PASSING:
                return
            self._trouble, self.is_away = sentence(error), error.code() in UNAVAILABLE
            if error.fatal():
                self._over.set()

    def _committed(self, error: KafkaError | None, _places: Sequence[TopicPartition]) -> None:
        with contextlib.suppress(Exception):
            # After a rebalance the next one, a second later, goes through.
            if error is not None and error.code() not in LEFT_BEHIND:
                log.warning("The position for lag tools was not written: %s", sentence(error))
