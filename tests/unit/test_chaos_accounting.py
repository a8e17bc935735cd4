"""The chaos run's accounting finds what was lost, doubled, disordered, or left over."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from bench.chaos import accounting, plan, tables
from bench.chaos.reading import Entry
from bench.rig import Rig
from integration.models import MessageError, Provider, Queue, QueuePartition

pytestmark = [pytest.mark.servers, pytest.mark.django_db]

WELL = accounting.Account(sent=12, lost=0, doubled=0, strangers=0, out_of_order=0)


@pytest.fixture
def queues() -> dict[str, Queue]:
    provider = Provider.objects.create(name="main", bootstrap_servers="127.0.0.1:1")
    kinds = {plan.LINE: "sequential", plan.KEYED: "continuous", plan.SHARED: "continuous"}
    return {
        name: Queue.objects.create(
            name=name, provider=provider, topic=name, kind=kind, start_from="beginning"
        )
        for name, kind in kinds.items()
    }


@pytest.fixture
def rig(queues) -> Rig:
    """Four messages in each queue, two keys; its session is the test's own and is rolled back."""
    raw: Any = connection.connection
    found = Rig(
        folder=Path(),
        database_url="",
        broker_url="",
        bootstrap="",
        inherited={},
        _session=raw,
    )
    found.write(tables.TABLES)
    book = [Entry(name, seq, f"k-{seq % 2}", 0, seq + 100) for name in queues for seq in range(4)]
    accounting.remember(found, book)
    return found


def apply(rig: Rig, queue: str, *seqs: int) -> None:
    for seq in seqs:
        rig.write(tables.WRITE_EFFECT, [queue, seq, 1, 1])


def apply_all(rig: Rig, *but: str) -> None:
    for queue in {plan.LINE, plan.KEYED, plan.SHARED} - set(but):
        apply(rig, queue, 0, 1, 2, 3)


def fail(queue: Queue, seq: int, state: str, **fields: object) -> None:
    now = timezone.now()
    MessageError.objects.create(
        queue=queue,
        topic_uuid="u",
        partition=0,
        offset=seq + 100,
        state=state,
        failure_class="PERMANENT",
        code="X",
        first_failed_at=now,
        last_failed_at=now,
        **fields,
    )


def test_all_well_also_where_a_person_deleted_one(rig, queues):
    apply_all(rig, plan.KEYED)
    apply(rig, plan.KEYED, 0, 1, 3)
    fail(queues[plan.KEYED], 2, "DELETED")
    assert accounting.account(rig) == WELL


def test_a_message_without_an_effect_is_lost(rig):
    apply_all(rig, plan.SHARED)
    apply(rig, plan.SHARED, 0, 1, 2)
    assert accounting.account(rig).lost == 1


def test_a_message_that_waits_is_left_over_and_not_lost_yet(rig, queues):
    apply_all(rig, plan.SHARED)
    apply(rig, plan.SHARED, 0, 2)
    fail(queues[plan.SHARED], 1, "HOLD")
    QueuePartition.objects.create(
        queue=queues[plan.SHARED], partition=0, topic_uuid="u", next_offset=103
    )
    assert accounting.account(rig).lost == 0


def test_two_effects_and_one_of_a_deleted_message_are_doubles(rig, queues):
    apply_all(rig)
    apply(rig, plan.SHARED, 0)
    fail(queues[plan.SHARED], 1, "DELETED")
    assert accounting.account(rig).doubled == 2


def test_the_effect_of_an_aborted_message_has_no_place_in_the_book(rig):
    apply_all(rig)
    apply(rig, plan.SHARED, 99)
    assert accounting.account(rig).strangers == 1


@pytest.mark.parametrize(
    ("queue", "order", "wrong"),
    [
        (plan.KEYED, (1, 0, 3, 2), 0),
        (plan.KEYED, (0, 3, 1, 2), 1),
        (plan.LINE, (0, 2, 1, 3), 1),
        (plan.SHARED, (3, 2, 1, 0), 0),
    ],
)
def test_order_counts_within_a_key_and_on_the_line_as_a_whole(rig, queue, order, wrong):
    apply_all(rig, queue)
    apply(rig, queue, *order)
    assert accounting.account(rig).out_of_order == wrong


def test_what_was_parked_on_the_line_keeps_the_order_of_its_key_alone(rig, queues):
    apply_all(rig, plan.LINE)
    for seq in (0, 2):
        fail(queues[plan.LINE], seq, "RESOLVED", parked_at=timezone.now())
    apply(rig, plan.LINE, 1, 3, 0, 2)
    assert accounting.account(rig) == WELL
    rig.write("DELETE FROM chaos_effect WHERE queue = %s", [plan.LINE])
    apply(rig, plan.LINE, 1, 3, 2, 0)
    assert accounting.account(rig).out_of_order == 1


def test_what_is_open_or_not_read_is_left(rig, queues):
    number = count(102)
    for queue in queues.values():
        QueuePartition.objects.create(
            queue=queue, partition=0, topic_uuid="u", next_offset=next(number)
        )
    fail(queues[plan.LINE], 0, "HOLD")
    left = accounting.left(rig)
    assert (left["open failures"], left["messages not read"]) == (1, 2 + 1)
