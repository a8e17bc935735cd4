"""Each row arrives once and in the order of its topic, wherever shards die while they hand over.

How: as in test_relay_crash, with two topics, of which one is handed from the first shard to the
second, or back. The two relays that follow work side by side.
"""

import threading
import time
import uuid

import pytest
from django.conf import settings

from devstack.servers import Servers
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.kafka import admin
from integration.models import Provider, RelayLease
from integration.policy.relay_shares import NOTHING, Share, shard_of, share
from integration.runs.relay import run_relay
from tests.crash.test_relay_crash import World, asleep
from tests.functional.relay_world import nothing_left, put

pytestmark = [pytest.mark.servers, pytest.mark.crash, pytest.mark.django_db(transaction=True)]

EACH = 100


class TwoTopics(World):
    """One topic for each shard of two, with rows that come to both in turns."""

    def __init__(self, servers: Servers, environment: dict[str, str]) -> None:
        super().__init__(servers, environment)
        other = self.topic
        while shard_of(other, 2) == shard_of(self.topic, 2):
            other = f"crash-{uuid.uuid4().hex[:10]}"
        admin.create_topic(self.provider, other, partitions=1)
        self.topics = sorted([self.topic, other], key=lambda topic: shard_of(topic, 2))
        self.put: dict[str, list[bytes]] = {topic: [] for topic in self.topics}

    def want(self, shards: int) -> None:
        Provider.objects.update(shards=shards)

    def fill_both(self) -> None:
        for topic, values in self.put.items():
            first = len(values)
            more = [b"%d" % number for number in range(first, first + EACH)]
            put(self.provider, *more, topic=topic)
            values.extend(more)

    def held(self) -> list[Share]:
        return [lease.held for lease in RelayLease.objects.order_by("shard")]

    def go_on_with_both(self, held: list[Share]) -> None:
        """Until nothing is left and each shard holds what it should."""
        over = threading.Event()
        ends: list[RelayEnd] = []

        def serve(shard: int) -> None:
            end = RelayEnd.HELD
            while end is RelayEnd.HELD and not over.wait(0.05):
                end = run_relay(self.provider.pk, shard, stop=over.is_set)
            ends.append(end)

        threads = [threading.Thread(target=serve, args=(shard,)) for shard in (0, 1)]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while not (nothing_left() and self.held() == held) and time.monotonic() < deadline:
            time.sleep(0.02)
        over.set()
        for thread in threads:
            thread.join()
        assert (nothing_left(), self.held()) == (True, held)
        assert set(ends) <= {RelayEnd.STOPPED, RelayEnd.SPARE}

    def account_for_both(self) -> None:
        for topic, values in self.put.items():
            found = self.read(topic)
            assert len(found) == len(set(found)), "doubled"
            assert set(values) <= set(found), "lost"
            assert found == values, "out of order, or something else"


@pytest.fixture
def world(
    servers: Servers, child_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> TwoTopics:
    monkeypatch.setattr(settings, "SLUICE_DEPLOYMENT", f"crash-{uuid.uuid4().hex[:8]}")
    return TwoTopics(servers, child_environment)


def test_a_topic_that_a_new_shard_takes_arrives_once(world: TwoTopics) -> None:
    world.fill_both()
    world.kill_at(RelayStep.COMMITTED)
    world.want(2)
    world.fill_both()
    # The batch that was on its way is found out about before anything is given up.
    world.kill_at(RelayStep.GAVE_UP)
    assert world.held() == [share(0, 2)]
    world.kill_at(RelayStep.TOOK, shard=1)
    world.fill_both()
    world.go_on_with_both([share(0, 2), share(1, 2)])
    world.account_for_both()


def test_a_topic_that_comes_back_from_a_shard_too_many_arrives_once(world: TwoTopics) -> None:
    world.want(2)
    world.fill_both()
    world.kill_at(RelayStep.COMMITTED, shard=1)
    world.want(1)
    world.fill_both()
    # Nobody else has its topics as long as it has not given them up, whatever people want.
    world.kill_at(RelayStep.SETTLED, shard=1)
    assert world.held() == [share(1, 2)]
    world.kill_at(RelayStep.GAVE_UP, shard=1)
    world.kill_at(RelayStep.TOOK)
    world.fill_both()
    world.go_on_with_both([share(0, 1), NOTHING])
    world.account_for_both()


def test_a_shard_that_was_stopped_while_it_sent_what_another_holds_by_now_doubles_nothing(
    world: TwoTopics,
) -> None:
    world.fill_both()
    with asleep(world.child(RelayStep.WATERMARKED, "SIGSTOP")):
        world.want(2)
        world.fill_both()
        world.go_on_with_both([share(0, 2), share(1, 2)])
    world.account_for_both()
