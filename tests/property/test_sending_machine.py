"""Sending on the in-memory fakes under random answers, deaths and people: nothing lost or doubled.

One seed is one story: a queue of some concurrency, a partner whose answers the seed draws, and a
process that dies at steps the seed draws. Calls are made in an order that the seed draws too.
"""

import random
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from integration.delivery.context import RunContext
from integration.delivery.run import run
from integration.delivery.sending.call_threads import Call, CallThreads
from integration.delivery.sending.limits import Limits
from integration.delivery.sending.sender import Sender
from integration.delivery.snapshot import EndpointSnapshot, QueueSnapshot
from integration.endpoints.port import Answer, Later, OutboundMessage, Refused, Unknown, Unreachable
from integration.policy.failure_thresholds import FailureThresholds
from integration.policy.retry import RetryPolicy
from integration.policy.states import DeliveryState, ErrorState
from integration.values import Fetched
from tests.support.memory.endpoint import MemoryDeliverer, Shelf
from tests.support.memory.partition_manager import MemoryPartitionManager
from tests.support.memory.repository import MemoryRepository
from tests.support.memory.source import MemorySource, MemoryTopic
from tests.support.memory.tables import MemoryDatabase

pytestmark = pytest.mark.fast

MESSAGES = 14
KEYS = 3
ANSWERS = (
    Later(text="Busy."),
    Refused(text="No."),
    Unreachable(text="Down."),
    Unknown(text="Silence."),
)


class Died(BaseException):
    """The process is gone."""


class DrawnCallThreads(CallThreads):
    """Makes calls when it is asked for finished ones, in an order that the seed draws."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance = chance

    def start(self, call: Call) -> None:
        self.in_flight.add(call)
        call.started = self.monotonic()

    def finished(self, wait_seconds: float) -> list[Call]:
        waiting = sorted(self.in_flight, key=lambda call: call.messages[0].offset)
        done = [call for call in waiting if self.chance.random() < 0.6] or waiting[:1]
        for call in done:
            call.answers = call.deliverer.deliver(call.messages)
            self.in_flight.remove(call)
        return done

    def overdue(self, seconds: float) -> list[Call]:
        return []


class QuickSource(MemorySource):
    def fetch(self, limit: int, wait_seconds: float) -> Fetched:
        return super().fetch(limit, 0.0)


class Story:
    """One queue, one partner, and everything that happens to them."""

    def __init__(self, seed: int, **fields: Any) -> None:
        self.chance = random.Random(seed)
        self.topic = MemoryTopic()
        self.endpoint = EndpointSnapshot(
            id=7, name="e", system="s", idempotent=fields.pop("idempotent"), open_after=4
        )
        queue = QueueSnapshot(
            id=1,
            name="q",
            provider_id=1,
            provider_name="main",
            topic="t",
            sends=True,
            endpoint=self.endpoint,
            carrier="row",
            stay_seconds=0.0,
            batch_size=6,
            retry=RetryPolicy(max_retries=2),
            failure_thresholds=FailureThresholds(failure_threshold=0),
            **fields,
        )
        self.database = MemoryDatabase(queue, {0: 0}, topic_uuid=self.topic.uuid)
        self.shelf = Shelf()
        self.trouble = 0.3
        self.clock = 0.0
        self.deaths = 0
        self.stops = 0
        self.beyond: list[int] = []
        for n in range(MESSAGES):
            headers = [("sluice-message-id", f"m{n}".encode())]
            self.topic.append(b'{"n": 1}', key=f"k{n % KEYS}".encode(), headers=headers)

    def stop(self) -> None:
        """Somebody wants it to stop a little further on, but not before what was called already."""
        place = self.database.places[0]
        if place.locked:
            return
        calls = self.database.calls.rows.values()
        called = [c.place[2] for c in calls if c.epoch == place.epoch and c.error is None]
        earliest = max([place.next_offset, *(at + 1 for at in called)])
        place.stop_at = earliest + self.chance.randrange(3)

    def go_on(self) -> None:
        self.database.queue = replace(self.database.queue, paused=False)
        self.database.places[0].stop_at = None

    def answer(self, message: OutboundMessage) -> Answer | None:
        stop = self.database.places[0].stop_at
        has_row = self.database.error_at(self.topic.uuid, 0, message.offset) is not None
        if stop is not None and message.offset >= stop and not has_row:
            self.beyond.append(message.offset)
        if self.chance.random() >= self.trouble:
            return None
        answer = self.chance.choice(ANSWERS)
        if isinstance(answer, Unknown) and self.chance.random() < 0.5:
            self.shelf.put([message])
        return answer

    def step(self, _: object) -> None:
        if self.deaths and self.chance.random() < 0.05:
            self.deaths -= 1
            raise Died
        if self.stops and self.chance.random() < 0.03:
            self.stops -= 1
            self.stop()

    def monotonic(self) -> float:
        self.clock += 0.05
        return self.clock

    def work(self) -> None:
        """One run; when it dies, calls in flight happen or do not."""
        manager, call_threads = MemoryPartitionManager(self.database), DrawnCallThreads(self.chance)
        limits = Limits(self.database.circuits, self.monotonic, self.chance.random)
        deliverer = MemoryDeliverer(self.shelf, self.answer)
        sender = Sender(limits, call_threads, lambda _: deliverer)
        context = RunContext(
            queue=self.database.queue,
            source=QuickSource(self.topic),
            repository=MemoryRepository(self.database),
            manager=manager,
            observer=self,
            send=sender.deliver,
            monotonic=self.monotonic,
            roll=self.chance.random,
        )
        try:
            run(context)
        except Died:
            for call in call_threads.in_flight:
                if self.chance.random() < 0.5:
                    call.deliverer.deliver(call.messages)
            for place in self.database.places.values():
                place.owner, place.released = None, False
        self.database.clock.advance(self.chance.choice([0.2, 1.0, 40.0]))

    def decide(self) -> None:
        """People: what may have arrived is looked for, everything else is released."""
        arrived = {message.message_id for message in self.shelf.messages}
        for row in list(self.database.errors.values()):
            if row.state is not ErrorState.HOLD:
                continue
            if row.code == "DELIVERY_UNKNOWN" and row.message_id in arrived:
                self.database.change(
                    row.id, row.version, state=ErrorState.RESOLVED, ended="DELIVERED"
                )
                self.settle_calls(row.place)
            else:
                now = self.database.clock.seconds
                values = {"state": ErrorState.READY, "spent": 0, "crashes": 0, "not_before": now}
                self.database.change(row.id, row.version, **values)

    def settle_calls(self, place: tuple[str, int, int]) -> None:
        rows = self.database.calls.rows
        for id_, call in list(rows.items()):
            if call.place == place and call.state is DeliveryState.UNKNOWN:
                object.__setattr__(rows[id_], "state", DeliveryState.DELIVERED)

    def is_over(self) -> bool:
        at_end = self.database.places[0].next_offset == MESSAGES
        return at_end and not self.database.open_rows()

    def tell(self) -> "Story":
        self.deaths = self.stops = 4
        for turn in range(120):
            if turn == 40:
                self.trouble, self.deaths, self.stops = 0.0, 0, 0
            if turn >= 40 or self.chance.random() < 0.5:
                self.go_on()
            if not self.database.queue.paused:
                self.work()
            self.decide()
            if self.is_over():
                return self
        raise AssertionError("The story never ends.")


@settings(max_examples=150)
@given(
    seed=st.integers(0, 2**32),
    concurrency=st.sampled_from([1, 3]),
    kind=st.sampled_from(["sequential", "keys", "free"]),
    idempotent=st.booleans(),
)
# A stop is moved on while the batch before it is under way.
@example(seed=512, concurrency=3, kind="keys", idempotent=True)
def test_nothing_is_lost_doubled_or_out_of_order(seed, concurrency, kind, idempotent):
    story = Story(
        seed,
        idempotent=idempotent,
        sequential=kind == "sequential",
        concurrency=1 if kind == "sequential" else concurrency,
        keeps_keys_in_order=kind == "keys",
    ).tell()
    got = [int(message.message_id[1:]) for message in story.shelf.messages]
    firsts = list(dict.fromkeys(got))
    assert sorted(firsts) == list(range(MESSAGES))
    assert not story.beyond, "something was sent beyond a stop"
    if not idempotent:
        assert max(Counter(got).values()) == 1, "something arrived twice"
    if kind == "sequential":
        assert firsts == sorted(firsts)
    if kind == "keys":
        for key in range(KEYS):
            mine = [n for n in firsts if n % KEYS == key]
            assert mine == sorted(mine)
    endings = [t.offset for t in story.database.tracks if t.ended == "DELIVERED"]
    assert max(Counter(endings).values(), default=1) == 1
    states = {call.state for call in story.database.calls.rows.values()}
    assert states <= {DeliveryState.DELIVERED, DeliveryState.FAILED}
