"""Calls that never come back, then account for every message in SQL.

What is tested: a slot of a worker, a real process, whose handler or parser hangs ends by itself,
whatever the call does; the message on which that happens goes to HOLD with a code of its own,
the others are applied once, and no second run begins before the process is gone.
"""

import time

import pytest
from django.db import connection

from crontasks.health import slots
from crontasks.health.slots import Stage
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
from tests.support.partners import an_outbound_queue
from tests.support.warm import WarmChild
from tests.support.world.hanging import WAYS
from tests.support.world.models import Effect

pytestmark = [pytest.mark.crash, pytest.mark.servers, pytest.mark.django_db(transaction=True)]

ENDS_OF_NOBODY_ISOLATED = 2


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def environment(child_environment) -> dict[str, str]:
    return child_environment | {"SLUICE_LEASE_SECONDS": "2"}


def slot(queue: Queue, environment: dict[str, str], *how: str) -> WarmChild:
    return warm.child(["-m", "tests.support.hung_child", str(queue.pk), *how], environment)


def run_until_done(queue: Queue, environment: dict[str, str], *how: str) -> list[bytes]:
    """One process after the other, as a pool replaces them; what each that was ended has said."""
    ended = []
    for _ in range(8):
        process = slot(queue, environment, *how)
        try:
            said, _ = process.communicate(timeout=60)
        finally:
            process.kill()
        if process.returncode == 0:
            return ended
        ended.append(said)
    raise AssertionError(ended[-1])


def account(queue: Queue, held: int, others: list[int]) -> None:
    [row] = MessageError.objects.filter(queue=queue)
    assert (row.state, row.code, row.offset) == ("HOLD", "HANDLER_TIMEOUT", held)
    assert bytes(row.payload)
    assert sorted(Effect.objects.values_list("n", flat=True)) == others
    place = QueuePartition.objects.get(queue=queue)
    assert (place.next_offset, place.suspect_offset) == (len(others) + 1, None)
    ended = MessageTrack.objects.filter(queue=queue).exclude(ended__in=["RETRY", "STALE"])
    assert sorted(ended.values_list("offset", flat=True)) == list(range(len(others) + 1))


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_that_hangs_ends_its_process_and_its_message_is_held(broker, environment, way):
    queue = a_queue(broker, stay_seconds=0.1, crash_limit=2, handler_timeout_seconds=1)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "never", "way": way}, {"n": 2}])

    ended = run_until_done(queue, environment)

    assert len(ended) == ENDS_OF_NOBODY_ISOLATED + 2
    # The log tells where it stood.
    assert all(b"hanging.py" in said for said in ended), ended
    account(queue, 1, [0, 2])


@pytest.mark.parametrize("way", ["sleep", "regex"])
def test_a_parser_that_hangs_ends_its_process_and_its_message_is_held_unread(
    broker, environment, way
):
    queue = a_queue(
        broker, stay_seconds=0.1, crash_limit=2, handler_timeout_seconds=1, batch_size=3
    )
    said = [{"n": n, "text": "unreadable" if n == 4 else ""} for n in range(8)]
    broker.send(queue.topic, said)

    assert run_until_done(queue, environment, way)

    account(queue, 4, [0, 1, 2, 3, 5, 6, 7])


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_parser_that_hangs_on_the_way_out_holds_its_message_unread(
    broker, environment, tmp_path, kind
):
    queue = an_outbound_queue(
        broker, kind, stay_seconds=0.1, crash_limit=2, handler_timeout_seconds=1, batch_size=3
    )
    said = [{"n": n, "text": "unreadable" if n == 2 else ""} for n in range(5)]
    broker.send(queue.topic, said)

    assert run_until_done(queue, environment, "regex", str(tmp_path / "partner"))

    [row] = MessageError.objects.filter(queue=queue)
    assert (row.state, row.code, row.offset) == ("HOLD", "HANDLER_TIMEOUT", 2)
    assert bytes(row.payload)
    offsets = [
        int(line.rpartition("~")[2]) for line in (tmp_path / "partner").read_text().splitlines()
    ]
    assert offsets == [0, 1] if kind == "sequential" else [0, 1, 3, 4]
    assert not Delivery.objects.filter(queue=queue, state="SENDING").exists()
    place = QueuePartition.objects.get(queue=queue)
    assert place.next_offset == (2 if kind == "sequential" else 5)


def test_a_failure_on_which_its_second_try_hangs_is_held(broker, environment):
    queue = a_queue(broker, stay_seconds=0.1, crash_limit=2, handler_timeout_seconds=1)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}])
    run_until_done(queue, environment)
    edited = b'{"n": 0, "text": "unreadable"}'
    MessageError.objects.filter(queue=queue).update(
        state="READY", edited_payload=edited, version=2, code="REFUSED"
    )

    run_until_done(queue, environment, "sleep")

    [row] = MessageError.objects.filter(queue=queue)
    assert (row.state, row.code, row.offset) == ("HOLD", "HANDLER_TIMEOUT", 0)


@pytest.mark.parametrize("way", ["sleep", "regex"])
def test_nobody_takes_the_partitions_before_the_process_is_gone(broker, environment, settings, way):
    settings.SLUICE_LEASE_SECONDS = 2
    seen = set()
    queue = a_queue(broker, stay_seconds=0.1, handler_timeout_seconds=2)
    broker.send(queue.topic, [{"n": 0, "do": "never", "way": way}])
    hung = slot(queue, environment)
    try:
        eventually(lambda: PartitionLease.objects.filter(partition__queue=queue).exists())
        lapsed = False
        while hung.poll() is None:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT count(*) FROM integration_partitionlease "
                    "WHERE released_at IS NULL AND lease_until < clock_timestamp()"
                )
                lapsed = lapsed or (cursor.fetchone()[0] > 0 and hung.poll() is None)
            seen |= {(run.stage, run.next_offset, run.is_silent) for run in slots.look().runs}
            time.sleep(0.02)
    finally:
        hung.kill()
        hung.communicate()
    assert not lapsed
    # A call that lets no thread run ends its process as soon as it could be told.
    assert way == "regex" or (Stage.HANGS, 0, False) in seen, seen
