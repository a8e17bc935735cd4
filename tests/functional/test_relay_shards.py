"""The shards of a relay on the real database and a real broker, and what they cost."""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from django.conf import settings
from django.db import IntegrityError, connection, transaction

from devstack.server import Server
from devstack.servers import Servers
from integration.delivery.relay import policy
from integration.delivery.relay.left_out import LeftOut
from integration.delivery.relay.run import RelayEnd
from integration.models import OutboxRow, Provider, RelayLease
from integration.policy.relay_shares import EVERYTHING, NOTHING, bucket, shard_of, share
from integration.restore import traces
from integration.runs import relay as wiring
from integration.selectors.outbox import shards as shown
from integration.selectors.outbox.shards import ShardState
from integration.store import relay_lease, relay_rows, relay_sharing
from tests.functional.relay_world import a_provider, nothing_left, put, relay, sent
from tests.support import warm
from tests.support.kafka_world import Kafka
from tests.support.memory.relay import MemoryBroker, MemoryPublisher
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]

TOPICS = 6
MOST = 4
# Between two lots of rows: traffic, and no flood that the relays would have to work off.
PAUSE_SECONDS = 0.02


@pytest.fixture
def provider() -> Provider:
    return a_provider()


def held() -> list[Any]:
    return [lease.held for lease in RelayLease.objects.order_by("shard")]


def senders() -> list[int]:
    """The shards that have sent something."""
    have = RelayLease.objects.exclude(watermark="").exclude(watermark=None)
    return list(have.values_list("shard", flat=True))


def topic_of(shard: int, shards: int) -> str:
    return next(t for n in range(999) if shard_of(t := f"topic-{n}", shards) == shard)


def test_the_database_and_the_relay_agree_about_the_bucket_of_a_topic() -> None:
    names = ["orders", "plant.EAM_out-1", "a" * 249, *(uuid.uuid4().hex for _ in range(50))]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT topic, {relay_sharing.BUCKET} FROM unnest(%s::text[]) topic", [names]
        )
        assert dict(cursor.fetchall()) == {name: bucket(name) for name in names}


def test_a_batch_costs_as_many_statements_as_with_one_shard(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading, stamping and marking: a statement each."""
    broker = MemoryBroker(max_bytes=10 * policy.MAX_BYTES)
    put(provider, *[digit * (policy.MAX_BYTES + 1) for digit in (b"1", b"2", b"3")])
    counts: Counter[object] = Counter()
    execute = psycopg.Cursor.execute

    def counted(self: Any, query: Any, *args: Any, **more: Any) -> Any:
        counts[query] += 1
        return execute(self, query, *args, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    assert relay(provider, broker) is RelayEnd.STOPPED
    assert [counts[sql] for sql in (relay_rows.STAMP, relay_rows.MARK)] == [3, 3]
    # Perhaps one more, which found nothing while the last batch was being marked.
    assert counts[relay_rows.DUE] in {3, 4}
    assert counts[relay_sharing.HOLD] == 1, "it took everything, once"


def test_a_shard_passes_the_rows_of_others_in_the_index(provider: Provider) -> None:
    mine, other = topic_of(1, 4), topic_of(0, 4)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO integration_outboxrow (provider_id, shard, topic, headers, kind, "
            "message_id, state, created_at, dead_code, dead_text) "
            "SELECT %s, 0, %s, '[]', 'MESSAGE', '', 'PENDING', clock_timestamp(), '', '' "
            "FROM generate_series(1, 20000)",
            [provider.pk, other],
        )
        put(provider, b"mine", topic=mine)
        cursor.execute("ANALYZE integration_outboxrow")
        cursor.execute(relay_rows.BY_INDEX)
        place = share(1, 4)
        mark = {"provider": provider.pk, "first": place.first, "end": place.end}
        limits = {"rows": 1000, "bytes": 4_000_000, "marking": "{}"}
        cursor.execute("EXPLAIN (ANALYZE, BUFFERS OFF) " + relay_rows.DUE, {**mark, **limits})
        plan = "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("RESET enable_seqscan; RESET enable_bitmapscan")
    assert "Rows Removed by Filter" not in plan, plan
    assert plan.count("Index Scan using outbox_due") == 2, plan


def test_what_a_shard_too_many_holds_is_served_until_it_is_given_up(provider: Provider) -> None:
    Provider.objects.update(shards=2)
    tenure = relay_lease.take(provider.pk, 1, "before")
    assert tenure is not None
    with closing(tenure):
        assert tenure.outbox.take(tenure.share)
    Provider.objects.update(shards=1)
    assert wiring.shards() == [(provider.pk, 0), (provider.pk, 1)]
    broker = MemoryBroker()
    put(provider, b"1", topic=topic_of(1, 2))

    def publisher_for(*_: int) -> Any:
        return MemoryPublisher(broker)

    assert (
        wiring.run_relay(provider.pk, 1, stop=lambda: False, publisher_for=publisher_for)
        is RelayEnd.SPARE
    )
    assert sent(broker) == []
    assert wiring.shards() == [(provider.pk, 0)]
    relay(provider, broker)
    assert sent(broker) == [b"1"]
    assert held() == [EVERYTHING, NOTHING]


def test_of_two_shards_that_take_the_same_topics_at_once_one_is_refused(
    provider: Provider,
) -> None:
    """It has looked before the other one committed, so that only the database can tell."""
    other = RelayLease.objects.create(provider=provider, first_bucket=0, end_bucket=0)
    Provider.objects.update(shards=2)
    with closing(taken(provider, 1)) as tenure, ThreadPoolExecutor(1) as thread:
        with transaction.atomic():
            RelayLease.objects.filter(pk=other.pk).update(end_bucket=EVERYTHING.end)
            taking = thread.submit(tenure.outbox.take, tenure.share)
            while not is_waited_for():
                assert not taking.done(), taking.result()
        assert taking.result(10) is False
        assert held() == [EVERYTHING, NOTHING]
        RelayLease.objects.filter(pk=other.pk).update(end_bucket=tenure.share.first)
        assert tenure.outbox.take(tenure.share)
    with pytest.raises(IntegrityError, match="one_holder_per_bucket"):
        RelayLease.objects.filter(pk=other.pk).update(end_bucket=tenure.share.first + 1)


def is_waited_for() -> bool:
    """Return whether another session waits for this one of Django's."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity "
            "WHERE pg_backend_pid() = ANY(pg_blocking_pids(pid)))"
        )
        return bool(cursor.fetchone()[0])


def test_people_see_what_each_shard_does(provider: Provider) -> None:
    mine, moving = topic_of(0, 2), topic_of(1, 2)
    put(provider, b"1", b"2", topic=mine)
    put(provider, b"3", topic=moving)
    assert [one.state for one in shown.of_provider(provider.pk)] == [ShardState.UNSERVED]
    assert shown.of_all() == []
    first = relay_lease.take(provider.pk, 0, "first")
    assert first is not None
    with closing(first):
        assert first.outbox.take(EVERYTHING)
        Provider.objects.update(shards=2)
        with closing(taken(provider, 1)) as second:
            before, waits = shown.of_all()
            assert (before.state, before.pending) == (ShardState.MOVING, 3)
            assert (waits.state, waits.pending) == (ShardState.WAITS, None)
            first.outbox.give_up(share(0, 2))
            assert second.outbox.take(second.share)
            at_work = shown.of_provider(provider.pk)
    assert [(one.state, one.pending) for one in at_work] == [
        (ShardState.AT_WORK, 2),
        (ShardState.AT_WORK, 1),
    ]
    assert all(one.oldest_due_seconds is not None for one in at_work)
    RelayLease.objects.filter(shard=1).update(trouble="KAFKA_AWAY: It does not answer.")
    RelayLease.objects.filter(shard=0).update(lease_until=None)
    assert [one.state for one in shown.of_all()] == [ShardState.UNSERVED, ShardState.TROUBLE]
    told = LeftOut({"orders": "no broker leads its partition 0"}).text
    RelayLease.objects.filter(shard=1).update(trouble=told)
    assert [one.state for one in shown.of_all()] == [ShardState.UNSERVED, ShardState.LEAVES_OUT]


def taken(provider: Provider, shard: int) -> Any:
    tenure = relay_lease.take(provider.pk, shard, "test")
    assert tenure is not None
    return tenure


def test_after_a_restore_shards_that_the_backup_did_not_know_are_asked_about(
    kafka: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All was of one shard then; a second one has sent since, and what waits may be among it."""
    monkeypatch.setattr(settings, "SLUICE_DEPLOYMENT", f"shards-{uuid.uuid4().hex[:8]}")
    provider = a_provider(bootstrap_servers=kafka.bootstrap)
    put(provider, b"1", topic=topic_of(1, 2))
    RelayLease.objects.create(provider=provider, watermark="")
    for shard, last in ((0, ""), (1, str(uuid.uuid4()))):
        publisher = wiring.publisher_for(provider.pk, shard)
        publisher.open()
        publisher.write_watermark(last)
        publisher.close()
    [finding] = traces.find(is_certain=False, with_silent=False).findings
    assert (finding.provider, finding.facts["waiting"]) == (provider.pk, 1)
    assert finding.facts["watermarks"] == {1: last}


def new_name(shard: int) -> str:
    """A topic of the share of this one of four."""
    while shard_of(name := f"shards-{uuid.uuid4().hex[:8]}", MOST) != shard:
        pass
    return name


class Traffic:
    """Topics that rows come to all the time, and two processes that relay them."""

    def __init__(self, environment: dict[str, str], broker: Kafka) -> None:
        self.bootstrap = broker.bootstrap
        self.provider = a_provider(bootstrap_servers=broker.bootstrap)
        names = [new_name(number % MOST) for number in range(TOPICS)]
        self.put: dict[str, list[bytes]] = {broker.topic(name=name): [] for name in names}
        words = ["-m", "tests.functional.relays_child"]
        quick = {**environment, "SLUICE_LEASE_SECONDS": "1"}
        self.children: list[WarmChild] = [warm.child(words, quick, text=True) for _ in range(2)]

    def flow_until_sent_by(self, shards: int) -> None:
        """Commit rows until so many shards hold their shares, and each has sent something."""
        Provider.objects.update(shards=shards)
        wanted = [share(shard, shards) for shard in range(shards)]
        deadline = time.monotonic() + 90
        while [one for one in held() if one] != wanted or len(senders()) < shards:
            assert time.monotonic() < deadline, (held(), wanted, senders(), self.said())
            self.flow()

    def flow(self) -> None:
        for topic, values in self.put.items():
            more = [b"%d" % number for number in range(len(values), len(values) + 2)]
            put(self.provider, *more, topic=topic, key=b"k")
            values.extend(more)
        time.sleep(PAUSE_SECONDS)

    def read(self) -> dict[str, list[bytes | None]]:
        """All that is in Kafka; the last transaction may show itself a moment later."""
        config = {"bootstrap.servers": self.bootstrap, "group.id": "r", "log_level": 0}
        committed = {"isolation.level": "read_committed", "enable.partition.eof": True}
        reader = Consumer({**config, **committed})
        reader.assign([TopicPartition(topic, 0, 0) for topic in self.put])
        found: dict[str, list[bytes | None]] = {topic: [] for topic in self.put}
        at_end: set[str | None] = set()
        while len(at_end) < len(found) or any(
            len(found[topic]) < len(values) for topic, values in self.put.items()
        ):
            message = reader.poll(10)
            assert message is not None, "lost: nothing more comes"
            if message.error():
                at_end.add(message.topic())
            else:
                at_end.discard(message.topic())
                found[message.topic()].append(message.value())
        reader.close()
        return found

    def said(self) -> list[str]:
        for child in self.children:
            child.kill()
        return [child.stdout.read() for child in self.children if child.stdout is not None]

    def close(self) -> None:
        for child in self.children:
            child.kill()
            if child.stdout is not None:
                child.stdout.close()


@pytest.fixture
def traffic(child_environment: dict[str, str], servers: Servers) -> Iterator[Traffic]:
    made = Traffic(child_environment, Kafka(servers.kafka_bootstrap))
    yield made
    made.close()


def test_every_topic_arrives_once_and_in_order_while_the_number_changes_under_traffic(
    traffic: Traffic,
) -> None:
    traffic.flow_until_sent_by(1)
    traffic.flow_until_sent_by(MOST)
    owners = set(RelayLease.objects.values_list("owner", flat=True))
    assert len(owners) == MOST, "each shard has an owner of its own"
    # Whichever process serves them: the other one takes over what is left behind.
    traffic.children[0].kill()
    traffic.flow_until_sent_by(1)
    deadline = time.monotonic() + 60
    while not nothing_left():
        assert time.monotonic() < deadline, "something is left"
        time.sleep(0.02)
    assert traffic.read() == traffic.put
    assert not OutboxRow.objects.exclude(state="PUBLISHED").exists()
