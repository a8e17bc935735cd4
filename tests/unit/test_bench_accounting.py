"""The smoke run's accounting finds what was lost, doubled, or applied in the wrong order."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from bench import statements
from bench.rig import Rig
from bench.smoke import accounting
from integration.models import MessageError, MessageTrack, Provider, Queue

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


@pytest.fixture
def queue() -> Queue:
    provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
    return Queue.objects.create(
        name="strict", provider=provider, topic="strict", kind="sequential", start_from="beginning"
    )


@pytest.fixture
def rig(queue: Queue) -> Rig:
    """A rig whose session is the test's own, so that everything is rolled back."""
    raw: Any = connection.connection
    found = Rig(
        folder=Path(),
        database_url="",
        broker_url="",
        bootstrap="",
        inherited={},
        _session=raw,
    )
    found.write(statements.TABLES)
    accounting.remember(found, {("strict", seq): seq + 100 for seq in range(4)})
    return found


def apply(rig: Rig, queue: Queue, *seqs: int, ended: str = "APPLIED") -> None:
    for seq in seqs:
        rig.write(statements.WRITE_EFFECT, ["strict", seq, None])
        track(queue, seq, ended)


def track(queue: Queue, seq: int, ended: str) -> None:
    MessageTrack.objects.create(
        queue=queue,
        partition=0,
        offset=seq + 100,
        arrival_batch=1,
        message_id=str(seq),
        interface="x",
        ended=ended,
    )


def hold(queue: Queue, seq: int) -> None:
    now = timezone.now()
    MessageError.objects.create(
        queue=queue,
        topic_uuid="u",
        partition=0,
        offset=seq + 100,
        state="HOLD",
        failure_class="PERMANENT",
        code="X",
        first_failed_at=now,
        last_failed_at=now,
    )


def test_all_well(rig, queue):
    apply(rig, queue, 0, 1, 2)
    track(queue, 3, "RETRY")
    hold(queue, 3)
    assert accounting.account(rig, "strict") == accounting.Account(4, 0, 0, 1, 0)


def test_a_message_without_an_end_is_lost_also_when_its_effect_is_there(rig, queue):
    apply(rig, queue, 0, 1)
    rig.write(statements.WRITE_EFFECT, ["strict", 2, None])
    track(queue, 3, "APPLIED")
    found = accounting.account(rig, "strict")
    assert (found.lost, found.doubled) == (2, 0)


def test_two_effects_two_ends_an_effect_of_a_held_one_and_a_stranger_are_doubles(rig, queue):
    apply(rig, queue, 0, 1, 2, 3)
    rig.write(statements.WRITE_EFFECT, ["strict", 0, None])
    track(queue, 1, "SUPERSEDED")
    hold(queue, 2)
    rig.write(statements.WRITE_EFFECT, ["strict", 99, None])
    found = accounting.account(rig, "strict")
    assert (found.lost, found.doubled) == (0, 4)


def test_effects_in_the_wrong_order_are_counted(rig, queue):
    apply(rig, queue, 0, 2, 1, 3)
    assert accounting.account(rig, "strict").out_of_order == 1
