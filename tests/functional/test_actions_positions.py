"""A person moves a position: compared with what they saw, recorded, and what it passes kept."""

from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from integration.actions import positions
from integration.actions.errors import (
    NotPausedError,
    OffsetOutsideError,
    PositionMovedError,
    QueueMismatchError,
    ReasonMissingError,
    StillSendingError,
)
from integration.actions.positions import Move, Request
from integration.models import (
    Delivery,
    Gap,
    MessageError,
    PartitionLease,
    Queue,
    QueueChange,
    QueuePartition,
)
from integration.values import TopicFacts
from tests.support.partners import a_call, an_endpoint
from tests.support.rows import TOPIC_UUID, a_blocked_queue, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]
FACTS = TopicFacts(TOPIC_UUID, {0: 2, 1: 0}, {0: 15, 1: 8})


def seek(queue: Queue, *moves: Move, facts: TopicFacts = FACTS, **fields) -> list[str]:
    said = {"actor": "otto", "reason": "because"} | fields
    return positions.seek(queue.pk, moves, facts=facts, request=Request(**said))


def again(place: QueuePartition) -> QueuePartition:
    return QueuePartition.objects.get(pk=place.pk)


def gaps() -> list[tuple[int, int, str, str]]:
    names = ("from_offset", "to_offset", "reason", "acknowledged_by")
    return list(Gap.objects.order_by("from_offset").values_list(*names))


def paused(kind: str = "continuous", **fields) -> Queue:
    return a_queue_row(kind, paused=True, **fields)


def test_forward_leaves_a_gap_and_fences_whoever_still_runs() -> None:
    queue = paused()
    place = a_place(queue, stop_at=12)
    seek(queue, Move(0, 3, 10, 15))
    now = again(place)
    assert (now.next_offset, now.epoch, now.stop_at) == (15, 4, None)
    assert now.moved_at is not None
    assert gaps() == [(10, 15, "SKIPPED", "otto")]
    change = QueueChange.objects.get(queue=queue)
    assert (change.action, change.actor, change.reason, change.partition) == (
        "skip",
        "otto",
        "because",
        0,
    )
    queue.refresh_from_db()
    assert queue.paused


def test_back_changes_the_position_alone() -> None:
    queue = paused()
    place = a_place(queue)
    other = a_place(queue, partition=1, next_offset=8)
    seek(queue, Move(0, 3, 10, 2), Move(1, 3, 8, 8))
    assert (again(place).next_offset, again(place).epoch) == (2, 4)
    assert (again(place).moved_from, again(place).moves_before) == (10, None)
    assert (again(other).next_offset, again(other).epoch, again(other).moved_at) == (8, 3, None)
    assert gaps() == []
    assert list(QueueChange.objects.values_list("action", flat=True)) == ["seek"]


def test_a_position_that_went_back_before_moves_were_noted_reads_again_what_was_closed() -> None:
    migration = import_module("integration.migrations.0037_moves_before")
    queue = paused()
    places = [a_place(queue, partition=partition) for partition in range(4)]
    seek(queue, Move(3, 3, 10, 2), facts=TopicFacts(TOPIC_UUID, {3: 0}, {3: 15}))
    for partition, offset in ((0, 12), (0, 14), (1, 10), (2, 12), (3, 12)):
        a_held(queue, offset, partition=partition)
    MessageError.objects.exclude(partition=2).update(state="DELETED", closed_at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute(migration.WENT_BACK_BEFORE)
    assert [again(place).moved_from for place in places] == [15, None, None, 10]


@pytest.mark.parametrize("move", [Move(0, 3, 9, 2), Move(0, 2, 10, 2), Move(7, 3, 10, 2)])
def test_what_has_moved_since_it_was_shown_is_refused_as_a_whole(move: Move) -> None:
    queue = paused()
    place = a_place(queue)
    other = a_place(queue, partition=1, next_offset=8)
    with pytest.raises(PositionMovedError) as refused:
        seek(queue, Move(1, 3, 8, 0), move)
    assert refused.value.code == "POSITION_MOVED"
    assert (again(place).next_offset, again(other).next_offset) == (10, 8)
    assert not QueueChange.objects.exists()


def test_only_a_queue_that_stands_still_is_moved_and_only_with_a_reason() -> None:
    queue = a_queue_row()
    a_place(queue)
    with pytest.raises(NotPausedError):
        seek(queue, Move(0, 3, 10, 2))
    Queue.objects.update(enabled=False)
    with pytest.raises(ReasonMissingError):
        seek(queue, Move(0, 3, 10, 2), reason=" ")
    with pytest.raises(QueueMismatchError):
        seek(queue, Move(0, 3, 10, 10))
    seek(queue, Move(0, 3, 10, 2))


@pytest.mark.parametrize("after", [1, 16])
def test_only_what_the_topic_has_can_be_moved_to(after: int) -> None:
    queue = paused()
    a_place(queue)
    with pytest.raises(OffsetOutsideError):
        seek(queue, Move(0, 3, 10, after))


def test_a_topic_that_is_another_one_now_is_adopted_not_sought() -> None:
    queue = paused()
    a_place(queue)
    with pytest.raises(QueueMismatchError):
        seek(queue, Move(0, 3, 10, 2), facts=TopicFacts("second", {0: 0}, {0: 15}))
    QueuePartition.objects.update(state="BLOCKED", state_code="TOPIC_TRUNCATED")
    with pytest.raises(QueueMismatchError):
        seek(queue, Move(0, 3, 10, 2))


def test_a_blocked_sequential_queue_goes_past_its_failure_which_stays_open() -> None:
    queue, place, error = a_blocked_queue(paused=True)
    seek(queue, Move(0, 3, 10, 12))
    assert (again(place).state, again(place).state_code) == ("RUNNING", "")
    # It was tried: only what came behind it was not.
    assert gaps() == [(11, 12, "SKIPPED", "otto")]
    error.refresh_from_db()
    assert error.state == "HOLD"


@pytest.mark.parametrize(
    "waits",
    [
        {"state": "RETRY", "not_before": timezone.now()},
        {"state": "READY"},
        # The next run would take the marker of one that died, and try again.
        {"state": "PROCESSING", "epoch": 2},
    ],
    ids=lambda waits: waits["state"],
)
def test_a_head_that_would_be_tried_is_held_when_it_is_passed(waits: dict[str, Any]) -> None:
    """Tried by itself it would be applied after newer ones."""
    queue = paused("sequential")
    error = a_held(queue, **waits)
    a_place(queue, state="BACKOFF", state_error=error.pk, resume_at=timezone.now())
    seek(queue, Move(0, 3, 10, 11))
    error.refresh_from_db()
    assert (error.state, error.not_before, error.epoch) == ("HOLD", None, None)
    change = error.changes.get()
    assert (change.actor, change.action, change.from_state) == ("otto", "hold", waits["state"])
    assert gaps() == []


def test_a_stop_at_the_failure_threshold_stays() -> None:
    queue = paused()
    place = a_place(queue, state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS")
    seek(queue, Move(0, 3, 10, 12))
    assert (again(place).state, again(place).next_offset) == ("BRAKED", 12)


def test_what_expired_is_told_by_its_gap_alone() -> None:
    queue = paused()
    place = a_place(queue, next_offset=0, state="BLOCKED", state_code="GAP")
    Gap.objects.create(
        partition=place,
        topic_uuid=TOPIC_UUID,
        from_offset=0,
        to_offset=2,
        reason="EXPIRED",
        found_at=timezone.now(),
    )
    seek(queue, Move(0, 3, 0, 5))
    assert gaps() == [(0, 2, "EXPIRED", ""), (2, 5, "SKIPPED", "otto")]


def test_what_was_delivered_is_sent_again_only_when_somebody_says_so() -> None:
    queue = paused(direction="outbound", endpoint=an_endpoint())
    a_place(queue)
    a_call(queue, 4)
    a_call(queue, 7)
    seek(queue, Move(0, 3, 10, 5))
    assert set(Delivery.objects.values_list("topic_uuid", flat=True)) == {TOPIC_UUID}
    seek(queue, Move(0, 4, 5, 6), facts=FACTS)
    seek(queue, Move(0, 5, 6, 5), send_again=True)
    assert dict(Delivery.objects.values_list("offset", "topic_uuid")) == {4: TOPIC_UUID, 7: ""}


@pytest.mark.parametrize("partition", [0, 7])
def test_a_call_under_way_is_waited_for_as_long_as_its_owner_lives(partition: int) -> None:
    """Of a partition that is gone, too: whoever has the lowest one works for what is left of it."""
    queue = paused(direction="outbound", endpoint=an_endpoint())
    place, other = a_place(queue), a_place(queue, partition=1, high_watermark=8, next_offset=8)
    a_call(queue, 10, state="SENDING", partition=partition)
    lease = PartitionLease.objects.create(
        partition=place,
        owner="worker-1",
        epoch=3,
        lock_pid=1,
        lock_backend_start=timezone.now(),
        lease_until=timezone.now() + timedelta(seconds=60),
        taken_at=timezone.now(),
    )
    with pytest.raises(StillSendingError):
        seek(queue, Move(0, 3, 10, 11))
    seek(queue, Move(1, 3, 8, 7))
    lease.lease_until = timezone.now() - timedelta(seconds=1)
    lease.save()
    seek(queue, Move(0, 3, 10, 11))
    assert (again(place).next_offset, again(other).next_offset) == (11, 7)
