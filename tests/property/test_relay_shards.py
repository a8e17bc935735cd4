"""The shards of a relay on the in-memory fakes, while their number changes and they die.

One seed is one story: people publish and change the number of shards, relays come and go, die at
steps the seed draws, stand still there while others go on, and hear late of what people want.
Each topic arrives whole, once and in order, and is never sent by a shard that does not hold it.
"""

import random
from collections.abc import Callable, Sequence
from itertools import combinations
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from integration.delivery.relay import policy, shares
from integration.delivery.relay.ports import (
    FencedError,
    OutgoingRow,
    Publisher,
    RelayLostError,
    Verdict,
)
from integration.delivery.relay.run import Relay, RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.policy.relay_shares import bucket, share
from tests.support.fake_world import Died
from tests.support.memory.relay import (
    MemoryBroker,
    MemoryLease,
    MemoryPublisher,
    MemoryRelays,
    MemoryTenure,
)

pytestmark = pytest.mark.fast

TOPICS = [f"topic-{number}" for number in range(7)]
MOST = 4
STORIES = 400
DEEDS = 30
STEPS = list(RelayStep)


class WatchedPublisher(MemoryPublisher):
    """Looks at each commit whether the shard holds what it sends."""

    def __init__(self, broker: MemoryBroker, shard: int, lease: MemoryLease) -> None:
        super().__init__(broker, f"relay.{shard}")
        self.lease = lease

    def _commit(
        self, batch: UUID, rows: Sequence[OutgoingRow], committed: Callable[[], None]
    ) -> Verdict:
        self._check_fence()
        assert all(bucket(row.topic) in self.lease.held for row in rows), "not held"
        return super()._commit(batch, rows, committed)


class Living:
    """A relay that serves a shard, and what befalls it at the next step of a kind."""

    def __init__(self, world: "World", shard: int, tenure: MemoryTenure) -> None:
        self.tenure = tenure
        self.fate: tuple[RelayStep, Callable[[], None]] | None = None
        lease = world.relays.leases[shard]

        def publisher() -> Publisher:
            return WatchedPublisher(world.broker, shard, lease)

        self.relay = world.relay_of(tenure, publisher, self._observe, policy.judge)

    def _observe(self, step: RelayStep) -> None:
        if self.fate is not None and self.fate[0] is step:
            befall, self.fate = self.fate[1], None
            befall()

    def go(self, batches: int) -> RelayEnd:
        """One round of its loop, and further ones as long as it has something on its way."""
        left, is_first = batches, True

        def stop() -> bool:
            nonlocal left, is_first
            goes_on = left > 0 and (is_first or self.relay.is_marking)
            left, is_first = left - 1, False
            return not goes_on

        return self.relay.run(stop)

    def end(self) -> None:
        self.relay.close_publisher()
        self.tenure.close()


class World:
    def __init__(self, seed: int, relay_of: type[Relay] = Relay) -> None:
        self.draw = random.Random(seed)
        self.relay_of = relay_of
        self.relays = MemoryRelays(batch_rows=2)
        self.broker = MemoryBroker()
        self.living: dict[int, Living] = {}
        self.still: set[int] = set()
        self.count = 0

    def tell(self) -> None:
        deeds = [self.publish, self.publish, self.change, self.hear, self.turn, self.turn]
        for _ in range(DEEDS):
            self.draw.choice(deeds)()
            self.check()
        self.finish()

    def publish(self) -> None:
        for _ in range(self.draw.randint(1, 6)):
            self.count += 1
            self.relays.put(self.draw.choice(TOPICS), b"%d" % self.count)

    def change(self) -> None:
        self.relays.shards = self.draw.randint(1, MOST)

    def hear(self) -> None:
        for living in self.living.values():
            if self.draw.random() < 0.7:
                living.tenure.renew()

    def turn(self) -> None:
        shard = self.draw.choice(self.relays.served())
        self.broker.lost_answers = int(self.draw.random() < 0.1)
        fate = None
        if self.draw.random() < 0.5:
            befall = self.draw.choice([self.die, lambda: self.stand_still(shard)])
            fate = self.draw.choice(STEPS), befall
        self.serve(shard, fate, batches=self.draw.randint(1, 3))

    def die(self) -> None:
        raise Died

    def stand_still(self, shard: int) -> None:
        """Past its lease: whoever asks for the shard meanwhile takes it."""
        self.still.add(shard)
        for _ in range(self.draw.randint(1, 4)):
            self.hear()
            other = self.draw.choice([shard, *self.relays.served()])
            fate = (self.draw.choice(STEPS), self.die) if self.draw.random() < 0.2 else None
            self.serve(other, fate)
        self.still.discard(shard)

    def serve(
        self,
        shard: int,
        fate: tuple[RelayStep, Callable[[], None]] | None = None,
        batches: int = 1,
    ) -> None:
        if shard in self.still:
            self.still.discard(shard)
            del self.living[shard]
            self.relays.leases[shard].is_locked = False
        living = self.living.get(shard) or self.begin(shard)
        living.fate = fate
        try:
            end = living.go(batches)
        except Died:
            self.bury(shard, living)
        except (RelayLostError, FencedError):
            living.end()
            self.bury(shard, living)
        else:
            if end is RelayEnd.SPARE:
                living.end()
                self.bury(shard, living)

    def begin(self, shard: int) -> Living:
        tenure = self.relays.take(shard)
        assert tenure is not None
        self.living[shard] = Living(self, shard, tenure)
        return self.living[shard]

    def bury(self, shard: int, living: Living) -> None:
        if self.living.get(shard) is living:
            del self.living[shard]
            self.relays.leases[shard].is_locked = False

    def check(self) -> None:
        for one, other in combinations(self.relays.leases.values(), 2):
            assert not one.held.common(other.held), "held twice"
        sent = [row.id for row in self.broker.records]
        assert len(sent) == len(set(sent)), "doubled"
        for topic in TOPICS:
            of_topic = [row.id for row in self.broker.records if row.topic == topic]
            assert of_topic == sorted(of_topic), "out of order"

    def finish(self) -> None:
        """With everything up, all is sent and every shard comes to its share."""
        for _ in range(200):
            if self.is_over():
                break
            for living in self.living.values():
                living.tenure.renew()
            for shard in self.relays.served():
                self.serve(shard)
        self.check()
        assert self.is_over(), (self.relays.leases, self.relays.states)
        assert len(self.broker.records) == self.count, "lost"

    def is_over(self) -> bool:
        wanted = {n: share(n, self.relays.shards) for n in range(self.relays.shards)}
        held = {n: lease.held for n, lease in self.relays.leases.items() if lease.held}
        return held == wanted and set(self.relays.states.values()) <= {"PUBLISHED"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They look at their share in each round."""
    monkeypatch.setattr(shares, "LOOK_EVERY_SECONDS", 0.0)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=STORIES, deadline=None, database=None)
def test_no_topic_is_lost_doubled_or_split_while_the_number_of_shards_changes(seed: int) -> None:
    World(seed).tell()


class Hasty(Relay):
    """Gives up what it holds before it has found out what became of the batch on its way."""

    def _settle(self) -> Publisher | None:
        lease = self.tenure.outbox._lease  # type: ignore[attr-defined] # the fake's
        batch, lease.batch = lease.batch, None
        if self.shares.are_due():
            self.shares.balance()
        lease.batch = batch
        return super()._settle()


def _tell_many() -> None:
    for seed in range(20 * STORIES):
        World(seed, Hasty).tell()


def test_without_waiting_for_the_batch_on_its_way_a_topic_has_two_senders() -> None:
    with pytest.raises(AssertionError):
        _tell_many()
