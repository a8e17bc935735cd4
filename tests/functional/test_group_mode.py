"""Queues in group mode on a real broker: members come, go and die, and the locks decide."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import pytest
from confluent_kafka import Consumer, TopicPartition
from django.core.exceptions import ValidationError
from django.db import connections
from django.test import Client
from django.urls import reverse

from crontasks.health import flow_group
from crontasks.health.checks import check
from integration.delivery.owned import Owned
from integration.delivery.report import YIELD, Report
from integration.kafka import groups
from integration.kafka.source import group_of
from integration.models import PartitionLease, Queue
from integration.policy.groups import RELAYS
from integration.runs.queues import run_queue
from integration.selectors.queues import membership
from integration.store import joining
from integration.store.partition_manager import DatabasePartitionManager
from integration.store.sessions import execute
from integration.values import Assignment
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.flows import drain, effects
from tests.support.kafka_world import Kafka
from tests.support.rows import a_person
from tests.support.warm import WarmChild

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]
PARTITIONS = 4
EACH = 60
PROTOCOLS = ("classic", "consumer")
END_SESSIONS = """
SELECT pg_terminate_backend(lock_pid) AND pg_terminate_backend(batch_pid)
FROM integration_partitionlease LIMIT 1"""


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def a_group_queue(broker: Kafka, protocol: str, **fields: Any) -> Queue:
    known: dict[str, Any] = {"partitions": PARTITIONS, "batch_size": 5, "stay_seconds": 600.0}
    return a_queue(broker, group_protocol=protocol, **(known | fields))


def fill(broker: Kafka, queue: Queue, first: int) -> int:
    """Messages that take 20 ms each, as many in each partition; returns the next number."""
    for partition in range(PARTITIONS):
        numbers = range(first + partition * EACH, first + (partition + 1) * EACH)
        bodies = [{"n": n, "do": "sleep", "seconds": 0.02} for n in numbers]
        broker.send(queue.topic, bodies, partition=partition)
    return first + PARTITIONS * EACH


def shares(queue: Queue) -> dict[str, int]:
    """How many partitions each owner holds."""
    leases = PartitionLease.objects.filter(partition__queue=queue, released_at__isnull=True)
    owners = list(leases.values_list("owner", flat=True))
    return {owner: owners.count(owner) for owner in owners}


def a_child(queue: Queue, environment: dict[str, str]) -> WarmChild:
    """A run in a process of its own, until it has nothing more to do or is killed."""
    words = [str(queue.pk), "none", "1", "KILL"]
    return warm.child(["-m", "tests.support.crash_child", *words], environment)


def until(is_so: Callable[[], object], seconds: float = 90) -> None:
    """Wait for much longer than any session lasts: a busy machine delays each step of a join."""
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.05)


def each(queues: list[Queue], is_so: Callable[[Queue], object]) -> None:
    until(lambda: all(is_so(queue) for queue in queues))


def is_known_as_ours(queue: Queue) -> bool:
    """Return whether Kafka tells of two members, each of which is a run of this queue."""
    row = membership.group_row(queue)
    assert row.protocol == queue.group_protocol
    return [bool(member.owner) for member in row.members] == [True, True]


@pytest.mark.timeout(400)
def test_members_share_die_and_come_and_each_message_is_applied_once(broker, child_environment):
    """In both protocols at the same time, as most of it is waiting for sessions to end.

    Nobody starts a run that ended: the lease is as long as the shortest session of a group, so that
    a process that a busy machine holds up loses neither, and no run ends for want of messages.
    """
    environment = child_environment | {"SLUICE_LEASE_SECONDS": "6"}
    queues = [a_group_queue(broker, protocol) for protocol in PROTOCOLS]
    count = 0
    for queue in queues:
        count = fill(broker, queue, count)
    dying = [a_child(queue, environment) for queue in queues]
    staying: list[WarmChild] = []
    try:
        each(queues, lambda queue: list(shares(queue).values()) == [PARTITIONS])
        staying += [a_child(queue, environment) for queue in queues]
        each(queues, lambda queue: sorted(shares(queue).values()) == [2, 2])
        for child in dying:
            child.kill()
        for queue in queues:
            count = fill(broker, queue, count)
        staying += [a_child(queue, environment) for queue in queues]
        until(lambda: len(effects()) >= count)
        assert effects() == list(range(count))
        each(queues, lambda queue: sorted(shares(queue).values()) == [2, 2])
        each(queues, is_known_as_ours)
    finally:
        for child in (*dying, *staying):
            child.kill()


class Joins:
    """A group that assigns everything once it may, and what was taken of it."""

    def __init__(self) -> None:
        self.asked, self.may = threading.Event(), threading.Event()
        self.held: list[Owned] = []

    def __call__(self) -> Assignment:
        self.asked.set()
        return Assignment("m", frozenset(range(PARTITIONS))) if self.may.is_set() else Assignment()

    def take(self, manager: DatabasePartitionManager) -> None:
        try:
            self.held = manager.take(self)
        finally:
            connections.close_all()


class InThread:
    """A run in a thread; it ends when it is told to."""

    def __init__(self, queue: Queue) -> None:
        self.report = Report()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._run, args=[queue.pk])

    def _run(self, queue_id: int) -> None:
        try:
            self.report = run_queue(
                queue_id, stop=lambda **_: "over" if self.over.is_set() else None
            )
        finally:
            connections.close_all()


@contextmanager
def running(queue: Queue) -> Iterator[InThread]:
    run = InThread(queue)
    run.thread.start()
    try:
        yield run
    finally:
        run.over.set()
        run.thread.join(20)
        assert not run.thread.is_alive()


def gives_way(*, quiet_seconds: float = 0.0) -> str:
    del quiet_seconds
    return YIELD


def a_manager(queue: Queue) -> DatabasePartitionManager:
    """Ownership of a run that another queue waits for, from the first moment on."""
    return DatabasePartitionManager(queue.pk, "w", 60.0, workers=queue.workers, stop=gives_way)


def test_beside_a_run_that_waits_for_its_group_no_other_joins(broker):
    queue = a_group_queue(broker, "classic", workers=1)
    first, second, joins = a_manager(queue), a_manager(queue), Joins()
    thread = threading.Thread(target=joins.take, args=[first])
    thread.start()
    try:
        assert joins.asked.wait(20)
        never_asked = Joins()
        assert second.take(never_asked) == []
        assert not never_asked.asked.is_set()
    finally:
        joins.may.set()
        thread.join(20)
        first.close(clean=True)
        second.close(clean=True)
    # It did not give way before it could have joined.
    assert len(joins.held) == PARTITIONS


def test_a_run_that_gives_way_before_it_has_joined_is_asked_for_again(broker, monkeypatch):
    monkeypatch.setattr(joining, "TURN_SECONDS", 0.0)
    queue = a_group_queue(broker, "classic")
    manager = a_manager(queue)
    assert manager.take(Joins()) == []
    manager.close(clean=True)
    queue.refresh_from_db()
    assert queue.start_requested_at is not None


class Stranger:
    """Another application in the group; it answers whenever the group asks something."""

    def __init__(self, queue: Queue) -> None:
        self.assigned: set[int] = set()
        self.over = threading.Event()
        self.consumer = Consumer(
            {
                "bootstrap.servers": queue.provider.bootstrap_servers,
                "group.id": group_of(queue),
                "client.id": "stranger",
                "partition.assignment.strategy": "cooperative-sticky",
                "heartbeat.interval.ms": 500,
            }
        )
        self.consumer.subscribe([queue.topic], on_assign=self._assign)
        self.thread = threading.Thread(target=self._run)

    def _assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned |= {place.partition for place in partitions}

    def _run(self) -> None:
        while not self.over.is_set():
            self.consumer.poll(0.05)
        self.consumer.close()

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.thread.join(20)


def test_what_a_stranger_is_assigned_is_not_read_here_and_named(broker):
    queue = a_group_queue(broker, "classic", stay_seconds=60.0)
    page = Client()
    page.force_login(a_person("Operators", "otto"))
    with running(queue) as run:
        until(lambda: list(shares(queue).values()) == [PARTITIONS])
        assert check("group", flow_group.group(queue)).ok
        with Stranger(queue) as stranger:
            until(lambda: list(shares(queue).values()) == [2])
            until(lambda: stranger.assigned)
            until(lambda: not check("group", flow_group.group(queue)).ok)
            link = check("group", flow_group.group(queue))
            assert "stranger" in link.why
            shown = page.get(reverse("flow", args=[queue.name])).context["group"]
            assert [set(member.partitions) for member in shown.strangers] == [stranger.assigned]
        until(lambda: list(shares(queue).values()) == [PARTITIONS])
    assert run.report.ending == "STOPPED"
    # Whoever ends leaves its group at once.
    until(lambda: groups.described(queue.provider, group_of(queue), queue.topic).members == ())


def test_a_rebalance_that_meets_a_closed_database_ends_the_run_and_nothing_else(broker):
    queue = a_group_queue(broker, "classic", stay_seconds=60.0)
    with running(queue) as run:
        until(lambda: list(shares(queue).values()) == [PARTITIONS])
        with Stranger(queue) as stranger:
            execute(END_SESSIONS)
            run.thread.join(60)
            until(lambda: len(stranger.assigned) == PARTITIONS)
        assert run.report.ending == "LOST"
    broker.send(queue.topic, [{"n": n} for n in range(10)], partition=1)
    Queue.objects.filter(pk=queue.pk).update(stay_seconds=0.3)
    drain(queue)
    assert effects() == list(range(10))


@pytest.mark.parametrize(
    ("fields", "wrong"),
    [
        ({"group_protocol": "classic", "direction": "outbound"}, "group_protocol"),
        ({"group_id": "plant"}, "group_id"),
        ({"group_protocol": "classic", "group_id": f"{RELAYS}plant.1.0"}, "group_id"),
        ({"group_protocol": "consumer", "group_id": "a neighbour"}, "group_id"),
    ],
)
def test_a_group_that_nobody_would_join_or_that_is_anothers_is_not_saved(broker, fields, wrong):
    queue, neighbour = a_queue(broker), a_queue(broker)
    for field, value in fields.items():
        shown = group_of(neighbour) if value == "a neighbour" else value
        setattr(queue, field, shown)
    with pytest.raises(ValidationError) as refused:
        queue.clean()
    assert wrong in refused.value.message_dict


def test_a_group_of_its_own_is_joined(broker):
    queue = a_queue(broker, group_protocol="consumer", group_id="plant.orders")
    queue.clean()
    broker.send(queue.topic, [{"n": 1}])
    drain(queue)
    assert effects() == [1]
    assert groups.described(queue.provider, "plant.orders", queue.topic).state == "Empty"
