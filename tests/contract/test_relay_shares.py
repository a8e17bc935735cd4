"""The contract of a shard's ownership, over the in-memory fake and over the database."""

import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Protocol

import pytest
from django.conf import settings

from integration.delivery.relay.ports import RelayLostError, Tenure
from integration.models import Provider, RelayLease
from integration.policy.relay_shares import EVERYTHING, NOTHING, bucket, share
from integration.store import relay_lease
from tests.functional.relay_world import a_provider, put
from tests.support.memory.relay import MemoryRelays, MemoryTenure

# By the shard of two whose share they are in.
FIRST, SECOND = "orders", "workorders"


class World(Protocol):
    def tenure(self, shard: int) -> Tenure: ...
    def want(self, shards: int) -> None: ...
    def change_provider(self) -> None: ...
    def put(self, topic: str, value: bytes) -> int: ...
    def overtake(self, shard: int) -> None: ...


class InMemory:
    def __init__(self) -> None:
        self.relays = MemoryRelays()
        self.tenures: list[MemoryTenure] = []

    def tenure(self, shard: int) -> Tenure:
        taken = self.relays.take(shard)
        assert taken is not None
        self.tenures.append(taken)
        return taken

    def want(self, shards: int) -> None:
        self.relays.shards = shards
        for tenure in self.tenures:
            tenure.renew()

    def change_provider(self) -> None:
        self.relays.provider_as_of += "changed"
        for tenure in self.tenures:
            tenure.renew()

    def put(self, topic: str, value: bytes) -> int:
        return self.relays.put(topic, value)

    def overtake(self, shard: int) -> None:
        self.relays.leases[shard].epoch += 1


class InDatabase:
    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.provider: Provider = a_provider()

    def tenure(self, shard: int) -> Tenure:
        until = time.monotonic() + 10
        # The lock of a session that was closed is free a moment later.
        while (taken := relay_lease.take(self.provider.pk, shard, "contract")) is None:
            assert time.monotonic() < until
            time.sleep(0.02)
        return self.stack.enter_context(closing(taken))

    def want(self, shards: int) -> None:
        Provider.objects.update(shards=shards)

    def change_provider(self) -> None:
        Provider.objects.update(bootstrap_servers="127.0.0.1:2")

    def put(self, topic: str, value: bytes) -> int:
        return put(self.provider, value, topic=topic)[0]

    def overtake(self, shard: int) -> None:
        RelayLease.objects.filter(shard=shard).update(epoch=100)


DATABASE = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture(params=["memory", pytest.param("database", marks=DATABASE)])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    assert (bucket(FIRST) in share(0, 2), bucket(SECOND) in share(1, 2)) == (True, True)
    if request.param == "memory":
        yield InMemory()
        return
    monkeypatch.setattr(settings, "SLUICE_LEASE_SECONDS", 0.3)
    with ExitStack() as stack:
        yield InDatabase(stack)


def due(tenure: Tenure) -> list[tuple[str, bytes | None]]:
    rows = tenure.outbox.due(rows=100, size_bytes=10_000)
    assert tenure.outbox.has_due() == bool(rows)
    return [(row.topic, row.value) for row in rows]


def test_a_new_shard_holds_nothing_until_it_takes_its_share(world: World) -> None:
    world.put(FIRST, b"1")
    tenure = world.tenure(0)
    assert (tenure.outbox.held, tenure.share) == (NOTHING, EVERYTHING)
    assert due(tenure) == []
    assert tenure.outbox.take(tenure.share)
    assert tenure.outbox.held == EVERYTHING
    assert due(tenure) == [(FIRST, b"1")]


def test_a_shard_sends_the_topics_that_it_holds_in_their_order(world: World) -> None:
    world.want(2)
    for number, topic in enumerate((FIRST, SECOND, SECOND, FIRST, SECOND)):
        world.put(topic, b"%d" % number)
    first, second = world.tenure(0), world.tenure(1)
    assert first.outbox.take(first.share)
    assert second.outbox.take(second.share)
    assert due(first) == [(FIRST, b"0"), (FIRST, b"3")]
    assert due(second) == [(SECOND, b"1"), (SECOND, b"2"), (SECOND, b"4")]


def test_what_another_shard_holds_is_not_taken(world: World) -> None:
    first = world.tenure(0)
    assert first.outbox.take(EVERYTHING)
    world.want(2)
    second = world.tenure(1)
    assert not second.outbox.take(second.share)
    assert second.outbox.held == NOTHING
    first.outbox.give_up(share(0, 2))
    assert second.outbox.take(second.share)
    # Not even by one that people want to have it: it waits until it is given up.
    assert not first.outbox.take(EVERYTHING)
    assert first.outbox.held == share(0, 2)


def test_nothing_is_given_up_while_a_batch_is_on_its_way(world: World) -> None:
    world.put(FIRST, b"1")
    tenure = world.tenure(0)
    assert tenure.outbox.take(EVERYTHING)
    batch = uuid.uuid4()
    tenure.outbox.stamp(batch, tenure.outbox.due(rows=1, size_bytes=100))
    with pytest.raises(RelayLostError):
        tenure.outbox.give_up(share(0, 2))
    tenure.outbox.mark_published(batch, 1)
    tenure.outbox.await_marked()
    tenure.outbox.give_up(share(0, 2))
    assert tenure.outbox.held == share(0, 2)


def test_an_owner_of_an_older_epoch_neither_gives_up_nor_takes(world: World) -> None:
    world.want(2)
    tenure = world.tenure(0)
    assert tenure.outbox.take(tenure.share)
    world.overtake(0)
    with pytest.raises(RelayLostError):
        tenure.outbox.give_up(NOTHING)
    with pytest.raises(RelayLostError):
        tenure.outbox.take(EVERYTHING)
    assert tenure.outbox.held == share(0, 2)


def test_the_next_owner_holds_what_the_one_before_did(world: World) -> None:
    world.want(2)
    first = world.tenure(0)
    assert first.outbox.take(first.share)
    first.close()
    assert world.tenure(0).outbox.held == share(0, 2)


def test_a_new_number_of_shards_is_told_while_one_is_owned(world: World) -> None:
    tenure = world.tenure(1)
    assert tenure.share == NOTHING
    world.want(4)
    deadline = time.monotonic() + 10
    while tenure.share == NOTHING and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tenure.share == share(1, 4)


def test_a_change_of_the_provider_is_noticed(world: World) -> None:
    tenure = world.tenure(0)
    before = tenure.provider_as_of
    world.want(2)
    until = time.monotonic() + 10
    while tenure.share == EVERYTHING:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert tenure.provider_as_of == before, "the number of shards says nothing of the cluster"
    assert tenure.provider_now() == before
    world.change_provider()
    changed = tenure.provider_now()
    assert changed != before, "who asks is told at once"
    while tenure.provider_as_of == before:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert tenure.provider_as_of == changed


def test_a_later_owner_knows_the_cluster_that_was_noted(world: World) -> None:
    first = world.tenure(0)
    assert (first.outbox.cluster(), first.outbox.provider_as_of()) == ("", "")
    first.outbox.note_cluster("one", as_of="then")
    first.close()
    second = world.tenure(0)
    assert (second.outbox.cluster(), second.outbox.provider_as_of()) == ("one", "then")
    world.overtake(0)
    with pytest.raises(RelayLostError):
        second.outbox.note_cluster("another", as_of="now")


def test_topics_that_are_left_out_wait_in_their_order(world: World) -> None:
    tenure = world.tenure(0)
    assert tenure.outbox.take(tenure.share)
    for number, topic in enumerate((FIRST, SECOND, FIRST, SECOND)):
        world.put(topic, b"%d" % number)
    rows = tenure.outbox.due(rows=1, size_bytes=10_000, left_out={FIRST})
    assert [(row.topic, row.value) for row in rows] == [(SECOND, b"1")]
    assert tenure.outbox.has_due({FIRST})
    assert not tenure.outbox.has_due({FIRST, SECOND})
    assert not tenure.outbox.due(rows=100, size_bytes=10_000, left_out={FIRST, SECOND})
    assert [value for _, value in due(tenure)] == [b"0", b"1", b"2", b"3"]
