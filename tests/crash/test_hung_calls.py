"""Calls that never come back, then account for every message in SQL.

What is tested: a slot of a worker, a real process, whose handler or parser hangs ends by itself,
whatever the call does; the message on which that happens goes to HOLD with a code of its own,
the others are applied once, and no second run begins before the process is gone.
"""

import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from django.db import connection

from crontasks.health import slots
from crontasks.health.slots import Stage
from integration.actions import failures
from integration.models import (
    Delivery,
    MessageError,
    MessageTrack,
    PartitionLease,
    Queue,
    QueuePartition,
)
from tests.support import warm
from tests.support.builders import a_queue
from tests.support.celery_world import eventually
from tests.support.kafka_world import Kafka
from tests.support.killed import await_free_locks
from tests.support.partners import an_outbound_queue
from tests.support.warm import WarmChild
from tests.support.world.hanging import WAYS
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

ENDS_OF_NOBODY_ISOLATED = 2
# What the messages of one queue count from, where several queues write to the same table.
APART = 100
# Who looks so seldom may miss a stage; a busy machine stands still at times.
LONG_PAUSE_SECONDS = 1.0


@dataclass
class Stand:
    """A queue, how its parser hangs, and what each process that was ended for it has said."""

    queue: Queue
    how: tuple[str, ...] = ()
    first: int = 0
    ended: list[bytes] = field(default_factory=list)

    def ends_add_up(self) -> None:
        """Each tells where it stood, but for one whose machine stood still: that costs more."""
        told = [b"hanging.py" in said for said in self.ended]
        wanted = ENDS_OF_NOBODY_ISOLATED + self.queue.crash_limit
        assert len(told) == wanted if all(told) else told.count(False) == 1, self.ended

    def account(self, held: int, others: list[int]) -> None:
        name = self.queue.name
        [row] = MessageError.objects.filter(queue=self.queue)
        told = (row.queue.name, row.state, row.code, row.offset)
        assert told == (name, "HOLD", "HANDLER_TIMEOUT", held)
        assert bytes(row.payload)
        mine = Effect.objects.filter(n__range=(self.first, self.first + APART - 1))
        applied = sorted(n - self.first for n in mine.values_list("n", flat=True))
        assert (name, applied) == (name, others)
        place = QueuePartition.objects.get(queue=self.queue)
        assert (name, place.next_offset, place.suspect_offset) == (name, len(others) + 1, None)
        ended = MessageTrack.objects.filter(queue=self.queue).exclude(ended__in=["RETRY", "STALE"])
        offsets = sorted(ended.values_list("offset", flat=True))
        assert (name, offsets) == (name, list(range(len(others) + 1)))


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def environment(child_environment) -> dict[str, str]:
    return child_environment | {"SLUICE_LEASE_SECONDS": "2"}


def lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def slot(queue: Queue, environment: dict[str, str], *how: str) -> WarmChild:
    return warm.child(["-m", "tests.support.hung_child", str(queue.pk), *how], environment)


def run_until_done(environment: dict[str, str], *stands: Stand) -> None:
    """For each queue one process after the other, as a pool replaces them; the queues at once."""
    for _ in range(8):
        processes = [(stand, slot(stand.queue, environment, *stand.how)) for stand in stands]
        try:
            said = [process.communicate(timeout=60)[0] for _, process in processes]
        finally:
            for _, process in processes:
                process.kill()
        await_free_locks()
        stands = tuple(stand for stand, process in processes if process.returncode != 0)
        for (stand, process), text in zip(processes, said, strict=True):
            if process.returncode != 0:
                stand.ended.append(text)
        if not stands:
            return
    raise AssertionError([(stand.queue.name, stand.ended[-1]) for stand in stands])


def impatient(broker: Kafka, **fields: object) -> Queue:
    few = {"stay_seconds": 0.1, "crash_limit": 1, "handler_timeout_seconds": 1}
    return a_queue(broker, **(few | fields))


def test_a_handler_that_hangs_ends_its_process_and_its_message_is_held(broker, environment):
    """In every way, each in a queue of its own."""
    stands = {}
    for place, way in enumerate(WAYS):
        queue = impatient(broker, name=way, crash_limit=2 if way == "sleep" else 1)
        first = place * APART
        never = {"n": first + 1, "do": "never", "way": way}
        broker.send(queue.topic, [{"n": first}, never, {"n": first + 2}])
        stands[way] = Stand(queue, first=first)

    run_until_done(environment, *stands.values())

    for stand in stands.values():
        stand.ends_add_up()
        stand.account(1, [0, 2])


def test_a_handler_that_hangs_in_one_of_several_threads_stops_nothing_but_its_key(
    broker, environment
):
    """Four keys of three messages in three threads; the second message of the second key hangs."""
    # A machine that stands still for three seconds ends no process.
    environment = environment | {"SLUICE_LEASE_SECONDS": "6"}
    queue = impatient(broker, concurrency=3, ordering="key", batch_size=12, crash_limit=2)
    for key in range(4):
        bodies = [{"n": n} for n in range(3 * key, 3 * key + 3)]
        if key == 1:
            bodies[1] |= {"do": "never", "way": "sleep"}
        broker.send(queue.topic, bodies, key=f"k{key}")
    first = slot(queue, environment)
    said = first.communicate(timeout=60)[0]
    await_free_locks()
    assert first.returncode != 0
    assert b"hanging.py" in said, said
    # Threads that do not hang have committed theirs before their process ended.
    assert sorted(applied()) == [0, 1, 2, 6, 7, 8, 9, 10, 11]

    stand = Stand(queue, ended=[said])
    run_until_done(environment, stand)

    stand.ends_add_up()
    rows = MessageError.objects.filter(queue=queue).order_by("offset")
    told = list(rows.values_list("offset", "state", "code"))
    assert told[0] == (4, "HOLD", "HANDLER_TIMEOUT")
    assert [one[:2] for one in told[1:]] == [(5, "PARKED")]
    assert sorted(applied()) == [0, 1, 2, 3, 6, 7, 8, 9, 10, 11]
    place = QueuePartition.objects.get(queue=queue)
    assert (place.next_offset, place.done_ahead, place.suspect_offset) == (12, [], None)

    failures.delete(rows[0].pk, version=rows[0].version, actor="anna", reason="it hangs")
    run_until_done(environment, stand)
    assert sorted(applied()) == [0, 1, 2, 3, *range(5, 12)]
    assert [n for n in applied() if n in {3, 4, 5}] == [3, 5]


def applied() -> list[int]:
    """What was applied, in its order, with repetitions."""
    return list(Effect.objects.order_by("pk").values_list("n", flat=True))


def test_a_parser_that_hangs_ends_its_process_and_its_message_is_held_unread(broker, environment):
    stands = []
    for place, way in enumerate(["sleep", "regex"]):
        queue = impatient(broker, name=way, batch_size=3)
        first = place * APART
        said = [{"n": first + n, "text": "unreadable" if n == 4 else ""} for n in range(8)]
        broker.send(queue.topic, said)
        stands.append(Stand(queue, (way,), first))

    run_until_done(environment, *stands)

    for stand in stands:
        assert stand.ended, stand
        stand.account(4, [0, 1, 2, 3, 5, 6, 7])


def test_a_parser_that_hangs_on_the_way_out_holds_its_message_unread(broker, environment, tmp_path):
    stands = []
    for kind, way in (("sequential", "sleep"), ("continuous", "regex")):
        queue = an_outbound_queue(
            broker,
            kind,
            name=kind,
            stay_seconds=0.1,
            crash_limit=1,
            handler_timeout_seconds=1,
            batch_size=3,
        )
        said = [{"n": n, "text": "unreadable" if n == 2 else ""} for n in range(5)]
        broker.send(queue.topic, said)
        stands.append(Stand(queue, (way, str(tmp_path / kind))))

    run_until_done(environment, *stands)

    for stand in stands:
        assert stand.ended, stand
        holds_its_message_unread(stand.queue, tmp_path / stand.queue.kind)


def holds_its_message_unread(queue: Queue, partner: Path) -> None:
    [row] = MessageError.objects.filter(queue=queue)
    told = (row.queue.kind, row.state, row.code, row.offset)
    assert told == (queue.kind, "HOLD", "HANDLER_TIMEOUT", 2)
    assert bytes(row.payload)
    offsets = [int(line.rpartition("~")[2]) for line in partner.read_text().splitlines()]
    assert offsets == [0, 1] if queue.is_sequential else [0, 1, 3, 4]
    assert not Delivery.objects.filter(queue=queue, state="SENDING").exists()
    place = QueuePartition.objects.get(queue=queue)
    assert place.next_offset == (2 if queue.is_sequential else 5)


def test_a_failure_on_which_its_second_try_hangs_is_held(broker, environment):
    queue = impatient(broker)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}])
    run_until_done(environment, Stand(queue))
    edited = b'{"n": 0, "text": "unreadable"}'
    MessageError.objects.filter(queue=queue).update(
        state="READY", edited_payload=edited, version=2, code="REFUSED"
    )

    run_until_done(environment, Stand(queue, ("sleep",)))

    [row] = MessageError.objects.filter(queue=queue)
    assert (row.state, row.code, row.offset) == ("HOLD", "HANDLER_TIMEOUT", 0)


@pytest.mark.parametrize("way", ["sleep", "regex"])
def test_nobody_takes_the_partitions_before_the_process_is_gone(broker, environment, settings, way):
    # From the end of the process to that of its lease a fifteenth of it may be left.
    environment = environment | {"SLUICE_LEASE_SECONDS": "6"}
    settings.SLUICE_LEASE_SECONDS = 6
    for number in range(3):
        queue = a_queue(broker, name=f"q{number}", stay_seconds=0.1, handler_timeout_seconds=2)
        broker.send(queue.topic, [{"n": number, "do": "never", "way": way}])
        watched = watch(slot(queue, environment), queue)
        if watched.longest_pause_seconds < LONG_PAUSE_SECONDS:
            break
    assert not watched.has_lapsed
    # A call that lets no thread run ends its process as soon as it could be told.
    assert way == "regex" or (Stage.HANGS, 0, False) in watched.seen, watched.seen


@dataclass
class Watched:
    """What was seen of a process that hangs, and how long nobody looked."""

    has_lapsed: bool = False
    seen: set[tuple[Stage, int | None, bool]] = field(default_factory=set)
    longest_pause_seconds: float = 0.0


def watch(hung: WarmChild, queue: Queue) -> Watched:
    """Look at its lease and its slot until it ends."""
    watched = Watched()
    try:
        eventually(lambda: PartitionLease.objects.filter(partition__queue=queue).exists())
        looked = time.monotonic()
        while hung.poll() is None:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM integration_partitionlease "
                    "WHERE released_at IS NULL AND lease_until < clock_timestamp()"
                )
                # The kernel is asked: its parent's word that it has ended comes later.
                has_lapsed = cursor.fetchone()[0] > 0 and lives(hung.pid)
            watched.has_lapsed = watched.has_lapsed or has_lapsed
            watched.seen |= {
                (run.stage, run.next_offset, run.is_silent) for run in slots.look().runs
            }
            time.sleep(0.02)
            paused = time.monotonic() - looked
            watched.longest_pause_seconds = max(watched.longest_pause_seconds, paused)
            looked += paused
    finally:
        hung.kill()
        hung.communicate()
    return watched
