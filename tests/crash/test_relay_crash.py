"""Each row of the outbox reaches Kafka exactly once, wherever the relay dies.

How: a child process relays rows (here and there one that Kafka refuses) and is killed with SIGKILL
at each step in turn, or stopped with SIGSTOP past its lease; another relay goes on. Then a
read_committed reader's list is compared with the database.
"""

import os
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from django.conf import settings
from django.db import transaction

from devstack.servers import Servers
from integration.delivery.relay import policy
from integration.delivery.relay.run import RelayEnd
from integration.delivery.relay.steps import RelayStep
from integration.kafka import admin
from integration.models import OutboxRow, Provider
from integration.runs.relay import run_relay
from tests.functional.relay_world import a_provider, nothing_left, put
from tests.support import warm
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.servers, pytest.mark.crash, pytest.mark.django_db(transaction=True)]

ROWS = 600
# So many for each death of a shard that dies at one step after the other.
FEW = 60
TOPIC_LIMIT = 200_000
# A refusal costs the relay a second, for a new producer: only where it makes a difference.
AT_REFUSALS = {RelayStep.FLUSHED, RelayStep.UNSTAMPED, RelayStep.BURIED}
# What it gives up is another shard's from then on: see test_relay_shards_crash.
STEPS = [step for step in RelayStep if step is not RelayStep.GAVE_UP]


class World:
    """One provider, one topic, rows to send; and some that cannot be sent, if it is told so."""

    def __init__(self, servers: Servers, environment: dict[str, str]) -> None:
        self.bootstrap = servers.kafka_bootstrap
        # Nobody asks for the shard before its owner is stopped.
        self.environment = {**environment, "SLUICE_LEASE_SECONDS": "0.5"}
        # A name of its own: the transactional id must not meet an earlier test's watermark.
        self.environment["SLUICE_DEPLOYMENT"] = settings.SLUICE_DEPLOYMENT
        self.provider: Provider = a_provider(bootstrap_servers=self.bootstrap)
        self.topic = f"crash-{uuid.uuid4().hex[:10]}"
        limits = {"max.message.bytes": str(TOPIC_LIMIT)}
        admin.create_topic(self.provider, self.topic, partitions=1, settings=limits)
        self.values: list[bytes] = []
        self.refused: list[int] = []

    def fill(self, rows: int = ROWS, *, with_refused: bool = False) -> None:
        first, half = len(self.values), rows // 2 + rows // 12
        more = [b"%d" % n for n in range(first, first + rows)]
        self.values += more
        put(self.provider, *more[:half], topic=self.topic)
        if with_refused:
            self.refused += put(self.provider, os.urandom(2 * TOPIC_LIMIT), topic=self.topic)
        put(self.provider, *more[half:], topic=self.topic)

    def child(self, step: RelayStep, name: str, *behind: RelayStep, shard: int = 0) -> WarmChild:
        """Start a relay and wait until it has got to the step, after those `behind` it."""
        arguments = [f"{self.provider.pk}/{shard}", step.value, name, *behind]
        words = ["-m", "tests.crash.relay_child", *arguments]
        child = warm.child(words, self.environment, text=True, errors=False)
        assert child.stdout is not None
        try:
            child.expect_line("there")
        except BaseException:
            child.kill()
            child.stdout.close()
            raise
        return child

    def kill_at(self, step: RelayStep, *behind: RelayStep, shard: int = 0) -> None:
        child = self.child(step, "SIGKILL", *behind, shard=shard)
        assert child.wait(10) == -signal.SIGKILL
        assert child.stdout is not None
        child.stdout.close()
        await_free_locks()

    def go_on(self, judge: policy.Judge = policy.judge) -> None:
        deadline = time.monotonic() + 30

        def stop() -> bool:
            assert time.monotonic() < deadline, "the second relay did not get through"
            return nothing_left()

        end = RelayEnd.HELD
        while end is RelayEnd.HELD and time.monotonic() < deadline:
            end = run_relay(self.provider.pk, 0, stop=stop, judge=judge)
            time.sleep(0.05)
        assert end is RelayEnd.STOPPED

    def read(self, topic: str = "") -> list[bytes | None]:
        Kafka(self.bootstrap).await_decided(topic or self.topic)
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "accounting",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        reader.assign([TopicPartition(topic or self.topic, 0, 0)])
        found: list[bytes | None] = []
        # Values are never null here: null stands for the end.
        while not found or found[-1] is not None:
            message = reader.poll(60)
            assert message is not None, "the topic does not answer"
            found.append(None if message.error() else message.value())
        reader.close()
        return found[:-1]

    def account(self) -> None:
        found = self.read()
        counts = Counter(found)
        assert [value for value, count in counts.items() if count > 1] == [], "doubled"
        assert set(self.values) - set(counts) == set(), "lost"
        assert found == self.values, "out of order, or something else"
        assert OutboxRow.objects.filter(state="PUBLISHED").count() == len(self.values)
        rest = OutboxRow.objects.exclude(state="PUBLISHED").values_list("pk", "state")
        assert sorted(rest) == [(pk, "DEAD") for pk in self.refused]


@pytest.fixture
def world(
    servers: Servers,
    child_environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    monkeypatch.setattr(settings, "SLUICE_DEPLOYMENT", f"crash-{uuid.uuid4().hex[:8]}")
    return World(servers, child_environment)


@pytest.mark.timeout(400)
def test_each_row_arrives_once_wherever_the_relay_is_killed(world: World) -> None:
    """At each step in turn, on what the one before has left; then at some in another order."""
    for step in STEPS:
        world.fill(FEW, with_refused=step in AT_REFUSALS)
        world.kill_at(step)
    for step in (RelayStep.COMMITTED, RelayStep.WATERMARKED, RelayStep.FENCED):
        world.fill(FEW)
        world.kill_at(step)
    world.go_on()
    world.account()


@pytest.mark.parametrize("step", [RelayStep.BEGUN, RelayStep.PRODUCED])
def test_each_row_arrives_once_when_the_relay_dies_between_two_batches(
    world: World, step: RelayStep
) -> None:
    """One is in Kafka and not yet marked, as somebody holds a row of it; the next is on its way."""
    world.fill(with_refused=True)
    with transaction.atomic():
        OutboxRow.objects.select_for_update().get(pk=OutboxRow.objects.earliest("id").pk)
        # Tried are all of them at once, the part before the one that is refused, that one alone.
        # Not told apart by their number: the first may be refused while it is being filled.
        world.kill_at(step, RelayStep.COMMITTED)
        assert set(OutboxRow.objects.values_list("state", flat=True)) == {"PENDING"}
    world.go_on()
    world.account()


def test_without_the_watermark_check_a_death_after_the_commit_doubles(world: World) -> None:
    world.fill()
    world.kill_at(RelayStep.COMMITTED)
    world.go_on(judge=lambda *_: policy.Finding.NOT_SENT)
    with pytest.raises(AssertionError, match="doubled"):
        world.account()


def test_without_the_watermark_check_a_death_before_the_commit_loses(world: World) -> None:
    world.fill()
    world.kill_at(RelayStep.WATERMARKED)
    world.go_on(judge=lambda *_: policy.Finding.SENT)
    with pytest.raises(AssertionError, match="lost"):
        world.account()


@contextmanager
def asleep(child: WarmChild) -> Iterator[None]:
    """A relay that stands still meanwhile, then wakes and has to find that it lost its shard."""
    try:
        yield
        child.send_signal(signal.SIGCONT)
        child.expect_line("lost")
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


@pytest.mark.parametrize("step", [RelayStep.STAMPED, RelayStep.WATERMARKED, RelayStep.COMMITTED])
def test_a_relay_that_was_stopped_past_its_lease_doubles_nothing_when_it_wakes(
    world: World, step: RelayStep
) -> None:
    world.fill()
    with asleep(world.child(step, "SIGSTOP")):
        world.go_on()
    world.account()


def test_a_reader_sees_nothing_of_a_transaction_that_died_open(world: World) -> None:
    world.fill()
    for step in (RelayStep.FLUSHED, RelayStep.WATERMARKED):
        world.kill_at(step)
    reader = Consumer(
        {
            "bootstrap.servers": world.bootstrap,
            "group.id": "early",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.assign([TopicPartition(world.topic, 0, 0)])
    # The end that it is told shows that it did read, past the first transaction's abort marker.
    early = reader.poll(20)
    reader.close()
    assert early is not None, "the topic does not answer"
    assert early.error() is not None, "a record of a transaction that died"
    assert early.error().code() == KafkaError._PARTITION_EOF
    end = Kafka(world.bootstrap).end(world.topic)
    assert 0 < early.offset() < end, "nothing lies open behind it"
    world.go_on()
    world.account()
