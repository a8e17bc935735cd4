"""Switches of a queue and the ways out of each block."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from integration.actions import blocks, queues
from integration.actions.blocks import Place
from integration.actions.errors import (
    OutboundQueueError,
    PauseEndError,
    QueueMismatchError,
    StillSendingError,
    TopicAbsentError,
)
from integration.models import (
    Delivery,
    Gap,
    PartitionLease,
    Queue,
    QueueChange,
    QueuePartition,
)
from integration.selectors.delivering.open_calls import doubts
from integration.store import starts
from integration.store.positions import add_new_partitions
from integration.values import TopicFacts
from tests.support.partners import a_call, an_endpoint
from tests.support.rows import TOPIC_UUID, a_held, a_place, a_queue_row

pytestmark = [pytest.mark.servers, pytest.mark.django_db]


def again(place: QueuePartition) -> QueuePartition:
    return QueuePartition.objects.get(pk=place.pk)


def history(queue: Queue) -> list[tuple[str, str]]:
    return list(QueueChange.objects.filter(queue=queue).values_list("action", "actor"))


def test_pause_and_resume_are_recorded_and_a_second_click_is_told() -> None:
    queue = a_queue_row()
    queues.pause(queue.pk, actor="otto", reason="stocktaking")
    queue.refresh_from_db()
    assert (queue.paused, queue.pause_reason) == (True, "stocktaking")
    with pytest.raises(QueueMismatchError, match="otto") as told:
        queues.pause(queue.pk, actor="anna")
    assert told.value.code == "QUEUE_MISMATCH"
    queues.resume(queue.pk, actor="otto")
    queue.refresh_from_db()
    assert (queue.paused, queue.pause_reason) == (False, "")
    with pytest.raises(QueueMismatchError):
        queues.resume(queue.pk, actor="otto")
    assert history(queue) == [("resume", "otto"), ("pause", "otto")]


def test_the_end_of_a_pause_is_told_in_utc_wherever_it_was_said() -> None:
    queue, until = a_queue_row(), timezone.now() + timedelta(hours=1)
    queues.pause(queue.pk, actor="otto", until=until.astimezone(ZoneInfo("Asia/Tokyo")))
    [paused] = QueueChange.objects.filter(queue=queue)
    assert paused.effect.endswith(f"It continues at {until:%H:%M UTC on %d %B %Y}.")


def test_a_pause_ends_in_the_future_and_within_thirty_days() -> None:
    queue, now = a_queue_row(), timezone.now()
    west = ZoneInfo("Etc/GMT+12")
    never = datetime(9999, 12, 31, 23, 59, 59, tzinfo=west)
    for until in (now, now + timedelta(days=31), never, datetime.min.replace(tzinfo=UTC)):
        with pytest.raises(PauseEndError, match="not in the future, or more than 30 days"):
            queues.pause(queue.pk, actor="otto", until=until)
    queue.refresh_from_db()
    assert (queue.paused, history(queue)) == (False, [])


def test_resume_lifts_the_stop_at_the_threshold_and_no_block() -> None:
    queue = a_queue_row("continuous")
    stopped = a_place(queue, state="BRAKED", state_code="TOO_MANY_OPEN_ERRORS", state_text="many")
    blocked = a_place(queue, partition=1, state="BLOCKED", state_code="GAP")
    queues.resume(queue.pk, actor="otto")
    assert (again(stopped).state, again(stopped).state_code) == ("RUNNING", "")
    assert again(blocked).state == "BLOCKED"


def test_a_queue_is_switched_off_and_on() -> None:
    queue = a_queue_row()
    queues.disable(queue.pk, actor="otto")
    with pytest.raises(QueueMismatchError):
        queues.disable(queue.pk, actor="otto")
    assert starts.leave_request(queue.pk) is False
    queues.enable(queue.pk, actor="otto")
    queue.refresh_from_db()
    assert queue.enabled
    assert queue.start_requested_at is not None


def test_a_start_is_asked_for_once_in_ten_seconds() -> None:
    queue = a_queue_row()
    assert starts.leave_request(queue.pk) is True
    assert starts.leave_request(queue.pk) is False


def a_gap(place: QueuePartition, first: int = 10, after: int = 20) -> Gap:
    return Gap.objects.create(
        partition=place,
        topic_uuid=place.topic_uuid,
        from_offset=first,
        to_offset=after,
        reason="EXPIRED",
        found_at=timezone.now(),
    )


def test_the_last_gap_acknowledged_lets_the_partition_go_on() -> None:
    queue = a_queue_row()
    place = a_place(queue, state="BLOCKED", state_code="GAP", state_text="10 messages expired")
    first, second = a_gap(place), a_gap(place, 20, 25)
    blocks.acknowledge_gap(first.pk, actor="otto")
    assert again(place).state == "BLOCKED"
    blocks.acknowledge_gap(second.pk, actor="otto", reason="test data")
    assert (again(place).state, again(place).next_offset) == ("RUNNING", 10)
    with pytest.raises(QueueMismatchError, match="otto"):
        blocks.acknowledge_gap(second.pk, actor="anna")
    assert Gap.objects.get(pk=first.pk).acknowledged_by == "otto"


def test_acknowledging_a_gap_does_not_lift_another_block() -> None:
    queue = a_queue_row()
    place = a_place(queue, state="BLOCKED", state_code="HEAD_HELD")
    blocks.acknowledge_gap(a_gap(place).pk, actor="otto")
    assert again(place).state == "BLOCKED"


NEW = TopicFacts("second-topic", {0: 2}, {0: 7})
SAME = TopicFacts(TOPIC_UUID, {0: 2}, {0: 7})


def test_a_topic_that_was_away_and_lost_nothing_keeps_the_ids_of_its_messages() -> None:
    queue = a_queue_row()
    row = a_place(queue, state="BLOCKED", state_code="TOPIC_GONE")
    whole = TopicFacts(TOPIC_UUID, {0: 2}, {0: row.next_offset})
    blocks.adopt(queue.pk, place=Place.START, facts=whole, actor="otto")
    assert again(row).generation == 0


def test_what_a_topic_had_lost_before_it_was_away_gives_its_messages_other_ids() -> None:
    queue = a_queue_row()
    row = a_place(queue, state="BLOCKED", state_code="TOPIC_GONE", lost_from=6)
    grown = TopicFacts(TOPIC_UUID, {0: 2}, {0: 12})
    blocks.adopt(queue.pk, place=Place.START, facts=grown, actor="otto")
    assert (again(row).generation, again(row).lost_from) == (1, None)


@pytest.mark.parametrize(
    ("code", "facts", "place", "offset", "gaps"),
    [
        ("TOPIC_RECREATED", NEW, Place.START, 2, [(TOPIC_UUID, 10, 15)]),
        ("TOPIC_RECREATED", NEW, Place.END, 7, [(TOPIC_UUID, 10, 15), ("second-topic", 2, 7)]),
        ("TOPIC_TRUNCATED", SAME, Place.START, 2, []),
        ("TOPIC_TRUNCATED", SAME, Place.END, 7, []),
        ("TOPIC_GONE", NEW, Place.START, 2, [(TOPIC_UUID, 10, 15)]),
    ],
)
def test_adopting_sets_position_identity_and_epoch_and_records_what_stays_untried(
    code: str, facts: TopicFacts, place: Place, offset: int, gaps: list[tuple[str, int, int]]
) -> None:
    queue = a_queue_row()
    row = a_place(queue, state="BLOCKED", state_code=code)
    assert blocks.adopt(queue.pk, place=place, facts=facts, actor="otto", reason="restored") == 1
    now = again(row)
    assert (now.next_offset, now.topic_uuid, now.state) == (offset, facts.topic_uuid, "RUNNING")
    assert now.epoch == row.epoch + 1, "an owner that still runs is fenced"
    assert now.generation == 1, "its offsets are given to other messages"
    written = Gap.objects.order_by("topic_uuid", "from_offset")
    found = {(gap.topic_uuid, gap.from_offset, gap.to_offset) for gap in written}
    assert found == set(gaps)
    assert {gap.acknowledged_by for gap in written} <= {"otto"}
    assert history(queue) == [(f"adopt from {place}", "otto")]
    with pytest.raises(QueueMismatchError):
        blocks.adopt(queue.pk, place=place, facts=facts, actor="otto")


def test_what_was_done_at_offsets_that_a_topic_lost_does_not_stand_for_what_has_them_now() -> None:
    queue = a_queue_row("continuous")
    done = {"done_offsets": [5, 8], "open_from": 4, "open_until": 10, "open_arrival": 1}
    cut = {"state": "BLOCKED", "state_code": "TOPIC_TRUNCATED", "lost_from": 6}
    a_place(queue, next_offset=4, **done, **cut)
    blocks.adopt(queue.pk, place=Place.END, facts=GROWN, actor="otto")
    gaps = Gap.objects.order_by("from_offset").values_list("from_offset", "to_offset")
    assert list(gaps) == [(4, 5), (6, 12)], "what lies before the position was tried"


def test_failures_beyond_the_end_of_a_topic_keep_their_calls_and_give_up_their_offsets() -> None:
    queue = a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED")
    kept, lost = a_held(queue, 6), a_held(queue, 7)
    for offset, state in [(6, "UNKNOWN"), (7, "UNKNOWN"), (8, "DELIVERED")]:
        a_call(queue, offset, state=state)
    assert {doubt.error.pk for doubt in doubts(queue.pk, reveal=False)} == {kept.pk, lost.pk}

    blocks.adopt(queue.pk, place=Place.END, facts=SAME, actor="otto")

    assert {doubt.error.pk for doubt in doubts(queue.pk, reveal=False)} == {kept.pk, lost.pk}
    assert "1 failure is of messages" in QueueChange.objects.get().effect
    before = lost.version
    for error in (kept, lost):
        error.refresh_from_db()
    assert (kept.topic_uuid, lost.version) == (TOPIC_UUID, before + 1)
    topics = dict(Delivery.objects.values_list("offset", "topic_uuid"))
    assert topics == {6: TOPIC_UUID, 7: lost.topic_uuid, 8: lost.topic_uuid}
    # The same offsets once more.
    QueuePartition.objects.update(state="BLOCKED", state_code="TOPIC_TRUNCATED")
    again_lost = a_held(queue, 7)
    blocks.adopt(queue.pk, place=Place.END, facts=SAME, actor="otto")
    again_lost.refresh_from_db()
    assert len({TOPIC_UUID, lost.topic_uuid, again_lost.topic_uuid}) == 3


def test_failures_from_where_a_topic_ended_give_up_their_offsets_though_it_has_grown() -> None:
    queue = a_queue_row("continuous")
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED", lost_from=6)
    kept, lost = a_held(queue, 5), a_held(queue, 6)
    blocks.adopt(queue.pk, place=Place.START, facts=SAME, actor="otto")
    for error in (kept, lost):
        error.refresh_from_db()
    assert (kept.topic_uuid, lost.topic_uuid == TOPIC_UUID) == (TOPIC_UUID, False)


GROWN = TopicFacts(TOPIC_UUID, {0: 2}, {0: 12})


@pytest.mark.parametrize(
    ("kind", "facts", "place", "lost_from", "state"),
    [
        ("sequential", NEW, Place.START, None, "HOLD"),
        ("sequential", SAME, Place.END, None, "HOLD"),
        ("sequential", GROWN, Place.END, None, "HOLD"),
        # The position went back behind it: it is the head again.
        ("sequential", GROWN, Place.START, 11, "RETRY"),
        # Another message has its offset.
        ("sequential", GROWN, Place.START, 10, "HOLD"),
        ("continuous", NEW, Place.START, None, "RETRY"),
    ],
)
def test_what_would_be_tried_after_newer_ones_is_held_when_a_topic_is_adopted(
    kind: str, facts: TopicFacts, place: Place, lost_from: int | None, state: str
) -> None:
    queue = a_queue_row(kind)
    a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED", lost_from=lost_from)
    head = a_held(queue, 10, state="RETRY", not_before=timezone.now())
    late = a_held(queue, 9, state="READY", late=True)

    blocks.adopt(queue.pk, place=place, facts=facts, actor="otto", reason="restored")

    for error in (head, late):
        error.refresh_from_db()
    assert (head.state, late.state) == (state, "READY")
    changes = list(head.changes.values_list("actor", "reason"))
    assert changes == ([("otto", "restored")] if state == "HOLD" else [])


def test_adopting_touches_only_partitions_blocked_for_their_topic_that_exist() -> None:
    queue = a_queue_row("continuous")
    moved = a_place(queue, state="BLOCKED", state_code="TOPIC_TRUNCATED")
    away = a_place(queue, partition=1, state="BLOCKED", state_code="TOPIC_GONE")
    other = a_place(queue, partition=2, state="BLOCKED", state_code="GAP")
    assert blocks.adopt(queue.pk, place=Place.END, facts=SAME, actor="otto") == 1
    assert [again(row).state for row in (moved, away, other)] == ["RUNNING", "BLOCKED", "BLOCKED"]
    with pytest.raises(QueueMismatchError):
        blocks.adopt(queue.pk, place=Place.END, facts=SAME, actor="otto")


def test_partitions_that_a_topic_made_anew_lacks_are_given_up_when_it_is_adopted() -> None:
    queue = a_queue_row("continuous")
    moved = a_place(queue, state="BLOCKED", state_code="TOPIC_RECREATED")
    gone = a_place(queue, partition=1, generation=4, state="BLOCKED", state_code="TOPIC_GONE")
    a_gap(gone, 3, 10)
    failed = a_held(queue, partition=1)
    assert blocks.adopt(queue.pk, place=Place.START, facts=NEW, actor="otto", reason="smaller") == 2
    assert (again(moved).state, list(queue.partitions.all())) == ("RUNNING", [moved])
    assert again(moved).generation == 5, "a partition that it gets back begins with the highest"
    told = QueueChange.objects.get(partition=1)
    assert (told.actor, told.reason) == ("otto", "smaller")
    assert "10" in told.effect
    assert "5 offsets" in told.effect
    assert "7 offsets" in told.effect, "of the gap"
    failed.refresh_from_db()
    assert failed.state == "HOLD"
    # One that was left of a topic before is given up by itself.
    a_place(queue, partition=3, state="BLOCKED", state_code="TOPIC_GONE")
    assert blocks.adopt(queue.pk, place=Place.START, facts=NEW, actor="otto") == 1
    assert list(queue.partitions.all()) == [moved]


def test_what_is_left_of_a_partition_given_up_is_older_than_every_owner_after() -> None:
    """Its owner may have died in a call or a try, and one of the others has not come as far."""
    queue = a_queue_row("continuous")
    others = [
        a_place(queue, state="BLOCKED", state_code="TOPIC_RECREATED"),
        a_place(queue, partition=1, topic_uuid=NEW.topic_uuid, epoch=9),
    ]
    a_place(queue, partition=2, state="BLOCKED", state_code="TOPIC_GONE", epoch=9, generation=4)
    smaller = TopicFacts(NEW.topic_uuid, {0: 0, 1: 0}, {0: 7, 1: 7})
    assert blocks.adopt(queue.pk, place=Place.START, facts=smaller, actor="otto") == 2
    assert all(again(row).epoch > 9 for row in others)
    assert again(others[1]).generation == 0, "its messages stay, and their ids with them"
    # It gets that partition back.
    larger = TopicFacts(NEW.topic_uuid, {0: 0, 1: 0, 2: 0}, {0: 7, 1: 7, 2: 7})
    add_new_partitions(queue, larger)
    back = queue.partitions.get(partition=2)
    assert (back.epoch > 9, back.generation > 4) == (True, True)


def test_a_generation_is_counted_on_though_the_others_are_adopted_later() -> None:
    queue = a_queue_row("continuous")
    away = a_place(queue)
    a_place(queue, partition=1, state="BLOCKED", state_code="TOPIC_GONE", generation=4)
    for _ in range(2):
        blocks.adopt(queue.pk, place=Place.START, facts=NEW, actor="otto")
        QueuePartition.objects.update(state="BLOCKED", state_code="TOPIC_RECREATED")
    larger = TopicFacts(NEW.topic_uuid, {0: 2, 1: 0}, {0: 7, 1: 7})
    add_new_partitions(queue, larger)
    back = queue.partitions.get(partition=1)
    assert again(away).topic_uuid == NEW.topic_uuid
    assert back.generation > 4


@pytest.mark.parametrize(("owner", "where"), [(0, 0), (1, 1), (0, 7)])
@pytest.mark.parametrize("what", ["call", "try"])
def test_no_partition_is_given_up_while_something_is_sent_or_tried(
    owner: int, where: int, what: str
) -> None:
    """Here, or where the owner is to be fenced by it: the lowest one works for what is left."""
    queue = a_queue_row("continuous", direction="outbound", endpoint=an_endpoint())
    places = [
        a_place(queue, topic_uuid=NEW.topic_uuid),
        a_place(queue, partition=1, state="BLOCKED", state_code="TOPIC_GONE"),
    ]
    if what == "call":
        a_call(queue, 10, state="SENDING", partition=where)
    else:
        a_held(queue, partition=where, state="PROCESSING", epoch=3)
    lease = PartitionLease.objects.create(
        partition=places[owner],
        owner="worker-1",
        epoch=3,
        lock_pid=1,
        lock_backend_start=timezone.now(),
        lease_until=timezone.now() + timedelta(seconds=60),
        taken_at=timezone.now(),
    )
    with pytest.raises(StillSendingError):
        blocks.adopt(queue.pk, place=Place.START, facts=NEW, actor="otto")
    assert queue.partitions.count() == 2
    lease.lease_until = timezone.now() - timedelta(seconds=60)
    lease.save()
    blocks.adopt(queue.pk, place=Place.START, facts=NEW, actor="otto")
    assert list(queue.partitions.all()) == places[:1]


def test_a_topic_that_is_not_there_cannot_be_adopted() -> None:
    queue = a_queue_row()
    a_place(queue, state="BLOCKED", state_code="TOPIC_GONE")
    with pytest.raises(TopicAbsentError, match=queue.topic):
        blocks.adopt(queue.pk, place=Place.START, facts=None, actor="otto")


def test_staying_blocked_is_a_decision_too() -> None:
    queue = a_queue_row()
    place = a_place(queue, state="BLOCKED", state_code="TOPIC_RECREATED")
    blocks.stay_blocked(queue.pk, actor="otto", reason="asking the owner")
    assert again(place).state == "BLOCKED"
    assert history(queue) == [("stay blocked", "otto")]


def test_an_outbound_queue_has_no_switch_that_would_do_nothing() -> None:
    queue = a_queue_row(direction="outbound", name="orders", enabled=True)
    for verb in (queues.pause, queues.resume, queues.enable, queues.disable):
        with pytest.raises(OutboundQueueError, match="orders") as told:
            verb(queue.pk, actor="otto")
        assert told.value.code == "OUTBOUND_QUEUE"
    queue.refresh_from_db()
    assert (queue.enabled, queue.paused, history(queue)) == (True, False, [])
    assert queue.start_requested_at is None


def test_an_outbound_queue_switched_off_before_stays_as_it_is() -> None:
    queue = a_queue_row(direction="outbound", enabled=False, paused=True)
    for verb in (queues.resume, queues.enable):
        with pytest.raises(OutboundQueueError):
            verb(queue.pk, actor="otto")
