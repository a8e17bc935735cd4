"""The contract of the Source port, over its in-memory fake and over a real broker."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from devstack.server import Server
from integration.delivery.ports import Source
from integration.kafka.source import UNREADABLE
from integration.values import Fetched, Record, TroubleKind
from tests.contract.source_worlds import KafkaWorld, MemoryWorld, World, read_all, until
from tests.support.raw_produce import produce


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.servers)])
def world(request: pytest.FixtureRequest) -> World:
    if request.param == "memory":
        return MemoryWorld()
    return KafkaWorld(request.getfixturevalue("kafka").bootstrap)


@pytest.fixture
def source(world: World) -> Iterator[Source]:
    made = world.source()
    yield made
    made.close()


def until_trouble(source: Source) -> Fetched:
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        fetched = source.fetch(100, 1.0)
        assert not fetched.records
        if fetched.troubles:
            return fetched
    raise AssertionError("no trouble was reported")


def offsets(records: list[Record]) -> list[int]:
    return [record.offset for record in records]


def values(records: list[Record]) -> list[bytes | None]:
    return [record.value for record in records]


def test_reading_starts_at_exactly_the_attached_offset(world: World, source: Source) -> None:
    world.write(*[b"%d" % n for n in range(10)])
    source.attach({0: 4})
    found = read_all(source, 0)
    assert offsets(found.records[0]) == [4, 5, 6, 7, 8, 9]
    assert values(found.records[0])[0] == b"4"
    assert found.ends == {0: 10}
    assert not found.troubles


def test_only_attached_partitions_are_read(world: World, source: Source) -> None:
    world.write(b"zero")
    world.write(b"one", b"two", partition=1)
    source.attach({1: 1})
    found = read_all(source, 1)
    assert set(found.records) == {1}
    assert values(found.records[1]) == [b"two"]


def test_with_nothing_attached_nothing_is_read(world: World, source: Source) -> None:
    world.write(b"zero")
    source.attach({0: 0})
    source.attach({})
    assert source.fetch(10, 0.2) == Fetched()


def test_a_fetch_hands_out_at_most_its_limit_and_the_rest_later(
    world: World, source: Source
) -> None:
    world.write(*[b"%d" % n for n in range(25)])
    source.attach({0: 0})
    found = read_all(source, 0, limit=10)
    assert offsets(found.records[0]) == list(range(25))


def test_attaching_again_reads_from_the_new_place_and_from_nowhere_else(
    world: World, source: Source
) -> None:
    world.write(*[b"%d" % n for n in range(2000)])
    source.attach({0: 0})
    for place in (1000, 3, 1500, 0, 1999, 7):
        # Whatever was fetched ahead from the old place must not come up at the new one.
        source.fetch(50, 0.05)
        source.attach({0: place})
        first = Fetched()
        while not first.records:
            first = source.fetch(50, 5.0)
        assert first.records[0][0].offset == place


def some_ahead(source: Source, limit: int) -> list[Record]:
    """Read ahead until something has come; `limit` records at most are kept then."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if ahead := source.read_ahead(limit):
            return list(ahead)
        time.sleep(0.01)
    raise AssertionError("nothing came that could be read ahead")


def test_what_was_read_ahead_is_handed_out_next_in_order_and_once(
    world: World, source: Source
) -> None:
    world.write(*[b"%d" % n for n in range(300)])
    source.attach({0: 0})
    found = Fetched()
    while not found.drained:
        ahead = source.read_ahead(40) if found.records else some_ahead(source, 40)
        ahead = [*ahead, *source.read_ahead(40), *source.read_ahead(40)]
        assert len(ahead) <= 40
        fetched = source.fetch(40, 1.0)
        records = fetched.records.get(0, [])
        assert records[: len(ahead)] == ahead
        assert len(records) <= 40
        found.records.setdefault(0, []).extend(records)
        found.drained |= fetched.drained
    assert offsets(found.records[0]) == list(range(300))
    assert found.drained == {0}


def test_a_fetch_of_fewer_than_were_read_ahead_loses_none_of_them(
    world: World, source: Source
) -> None:
    world.write(*[b"%d" % n for n in range(60)])
    source.attach({0: 0})
    assert len(some_ahead(source, 50)) > 1
    first = Fetched()
    while not first.records:
        first = source.fetch(1, 1.0)
    assert offsets(first.records[0]) == [0]
    assert offsets(read_all(source, 0).records[0]) == list(range(1, 60))


def test_attaching_again_forgets_what_was_read_ahead(world: World, source: Source) -> None:
    world.write(*[b"%d" % n for n in range(100)])
    source.attach({0: 0})
    some_ahead(source, 50)
    source.attach({0: 70})
    assert offsets(read_all(source, 0).records[0]) == list(range(70, 100))


def test_with_nothing_attached_nothing_is_read_ahead(world: World, source: Source) -> None:
    world.write(b"1")
    source.attach({})
    assert not source.read_ahead(10)


def test_transaction_markers_leave_gaps_and_the_end_lies_behind_them(
    world: World, source: Source
) -> None:
    world.transaction(b"a", b"b", commit=True)
    world.transaction(b"c", commit=True)
    source.attach({0: 0})
    found = read_all(source, 0)
    assert offsets(found.records[0]) == [0, 1, 3]
    assert found.ends == {0: 5}
    facts = source.facts()
    assert facts is not None
    assert facts.high[0] == 5


def test_aborted_transactions_are_never_seen(world: World, source: Source) -> None:
    world.transaction(b"a", commit=True)
    world.transaction(b"lost", b"lost too", commit=False)
    world.transaction(b"b", commit=True)
    source.attach({0: 0})
    assert values(read_all(source, 0).records[0]) == [b"a", b"b"]


def test_an_open_transaction_is_beyond_the_end(world: World, source: Source) -> None:
    world.write(b"before")
    world.begin(b"undecided")
    source.attach({0: 0})
    assert values(read_all(source, 0).records[0]) == [b"before"]
    facts = source.facts()
    assert facts is not None
    assert facts.high[0] == 1
    assert source.ends() == {0: 2, 1: 0}, "what is undecided may be committed"
    world.finish()
    assert values(read_all(source, 0).records[0]) == [b"undecided"]


def test_the_end_is_told_when_it_is_reached_and_again_after_more(
    world: World, source: Source
) -> None:
    source.attach({0: 0})
    assert read_all(source, 0).ends == {0: 0}
    world.write(b"more")
    found = read_all(source, 0)
    assert values(found.records[0]) == [b"more"]
    assert found.ends == {0: 1}


def test_a_position_below_the_log_is_out_of_range(world: World, source: Source) -> None:
    world.write(*[b"%d" % n for n in range(10)])
    world.expire(6)
    source.attach({0: 2})
    trouble = until_trouble(source).troubles[0]
    assert (trouble.kind, trouble.partition) == (TroubleKind.OUT_OF_RANGE, 0)
    facts = source.facts()
    assert facts is not None
    assert (facts.low[0], facts.high[0]) == (6, 10)
    source.attach({0: 6})
    assert offsets(read_all(source, 0).records[0]) == [6, 7, 8, 9]


def test_a_position_above_the_log_is_out_of_range(world: World, source: Source) -> None:
    world.write(b"only")
    source.attach({0: 50})
    trouble = until_trouble(source).troubles[0]
    assert (trouble.kind, trouble.partition) == (TroubleKind.OUT_OF_RANGE, 0)


def test_trouble_on_one_partition_leaves_the_others_alone(world: World, source: Source) -> None:
    world.write(b"zero")
    world.write(b"one", partition=1)
    source.attach({0: 50, 1: 0})
    found = read_all(source, 1)
    assert values(found.records[1]) == [b"one"]


def test_a_deleted_topic_has_no_facts(world: World, source: Source) -> None:
    assert source.facts() is not None
    world.delete()
    deadline = time.monotonic() + 10
    while source.facts() is not None:
        assert time.monotonic() < deadline


def test_a_recreated_topic_has_another_identity(world: World, source: Source) -> None:
    world.write(b"old")
    before = source.facts()
    world.recreate()
    after = source.facts()
    assert before is not None
    assert after is not None
    assert before.topic_uuid != after.topic_uuid
    assert before.partitions == after.partitions == 2
    assert (before.high[0], after.high[0]) == (1, 0)


def test_everything_a_record_carries_comes_through(world: World, source: Source) -> None:
    headers = [("plain", b"1"), ("größe", "übel".encode()), ("bytes", b"\xff\x00"), ("none", None)]
    repeated = [*headers, ("plain", b"2")]
    world.write_one("größe".encode(), "schlüssel".encode(), repeated)
    world.write_one(None, None, None)
    world.write_one(b"", b"", [])
    source.attach({0: 0})
    full, null, empty = read_all(source, 0).records[0]
    assert (full.value, full.key) == ("größe".encode(), "schlüssel".encode())
    assert list(full.headers or ()) == repeated
    assert full.timestamp_ms is not None
    assert abs(full.timestamp_ms / 1000 - time.time()) < 60
    assert (null.value, null.key, list(null.headers or ())) == (None, None, [])
    assert (empty.value, empty.key, list(empty.headers or ())) == (b"", b"", [])


def test_a_lone_record_is_handed_out_without_waiting_for_more(world: World, source: Source) -> None:
    source.attach({0: 0})
    read_all(source, 0)
    world.write(b"alone")
    started = time.monotonic()
    fetched = Fetched()
    while not fetched.records:
        fetched = source.fetch(500, 10.0)
    # Generous for a busy machine; waiting for a full batch would take ten seconds.
    assert time.monotonic() - started < 8
    assert values(fetched.records[0]) == [b"alone"]


def test_positions_are_committed_and_closing_twice_is_fine(world: World) -> None:
    # Asked first, so that a cluster's first coordinator is there: closing waits for none.
    assert world.committed() == {}
    source = world.source()
    source.attach({0: 0, 1: 0})
    source.commit_to_group({0: 7, 1: 3})
    source.commit_to_group({})
    source.close()
    source.close()
    assert world.committed() == {0: 7, 1: 3}


class Losing:
    """A client that throws away what it has fetched, as one does when a callback fails."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.failures = 3

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def consume(self, limit: int, wait_seconds: float) -> list[Any]:
        found = self.client.consume(limit, wait_seconds)
        if found and self.failures:
            self.failures -= 1
            raise KafkaException(KafkaError(KafkaError._FATAL))
        return found


@pytest.mark.servers
def test_what_the_client_throws_away_is_read_again(kafka: Server) -> None:
    world = KafkaWorld(kafka.bootstrap)
    world.write(*[b"%d" % n for n in range(100)])
    source = world.source()
    losing = Losing(source._consumer)
    source._consumer = losing
    source.attach({0: 0})
    found = read_all(source, 0)
    assert losing.failures == 0
    assert offsets(found.records[0]) == list(range(100))
    assert [trouble.kind for trouble in found.troubles] == [TroubleKind.OTHER] * 3
    source.close()


@pytest.mark.servers
def test_what_the_client_throws_away_while_reading_ahead_is_read_again(kafka: Server) -> None:
    world = KafkaWorld(kafka.bootstrap)
    world.write(*[b"%d" % n for n in range(100)])
    source = world.source()
    source._consumer = Losing(source._consumer)
    source.attach({0: 0})
    found, deadline = Fetched(), time.monotonic() + 15
    while not found.drained:
        assert time.monotonic() < deadline
        source.read_ahead(30)
        fetched = source.fetch(30, 0.2)
        found.records.setdefault(0, []).extend(fetched.records.get(0, []))
        found.drained = fetched.drained
    assert offsets(found.records[0]) == list(range(100))
    source.close()


@pytest.mark.servers
def test_headers_that_cannot_be_read_stop_neither_their_message_nor_its_neighbours(
    kafka: Server,
) -> None:
    world = KafkaWorld(kafka.bootstrap)
    strange = [(b"\xff\xfe", b"v"), (b"fine", b"w")]
    port = int(kafka.bootstrap.rpartition(":")[2])
    # Many ordinary ones first: code that has become hot must notice it too.
    world.write(*[b"%d" % n for n in range(100)])
    produce(port, world.name, [(b"k", b"strange", strange), (b"k", b"after", [])])
    source = world.source()
    source.attach({0: 0})
    found = read_all(source, 0)
    assert values(found.records[0])[100:] == [b"strange", b"after"]
    assert not found.troubles
    assert list(found.records[0][100].headers or ()) == UNREADABLE
    source.close()


def test_without_a_group_nobody_else_has_a_say(world: World, source: Source) -> None:
    assert source.assigned() is None


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_is_told_what_it_may_try_and_reads_where_it_is_attached(
    world: World, protocol: str
) -> None:
    world.write(*[b"%d" % n for n in range(5)])
    member = world.member(protocol)
    try:
        until(lambda: (assigned := member.assigned()) and assigned.partitions == {0, 1})
        assigned = member.assigned()
        assert assigned is not None
        assert assigned.member
        assert member.facts() is not None
        for place in (3, 1):
            member.attach({0: place, 1: 0})
            found = read_all(member, 0, 1)
            assert offsets(found.records[0]) == list(range(place, 5))
            assert not found.troubles
        member.commit_to_group({0: 3, 1: 0})
        until(lambda: world.committed() == {0: 3, 1: 0})
    finally:
        member.close()
        member.close()
