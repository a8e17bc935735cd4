"""The main road on real servers: what is sent ends exactly once, in the right place."""

import gc
import json
from collections import Counter

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from integration.codec import decode_headers
from integration.delivery.report import Report
from integration.models import (
    ErrorAttempt,
    MessageError,
    MessageTrack,
    OutboxRow,
    Queue,
    QueuePartition,
)
from integration.policy.states import ErrorState, PartitionState
from integration.runs.queues import run_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Child, Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


def position(queue: Queue, partition: int = 0) -> QueuePartition:
    return QueuePartition.objects.get(queue=queue, partition=partition)


def effects(queue: Queue | None = None) -> list[int]:
    return sorted(Effect.objects.values_list("n", flat=True))


def drain(queue: Queue, runs: int = 1) -> Report:
    report = Report()
    for _ in range(runs):
        report = run_queue(queue.pk)
    return report


@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_every_message_is_applied_once_and_the_position_moves_with_it(broker, kind):
    queue = a_queue(broker, kind, batch_size=50)
    broker.send(queue.topic, [{"n": n} for n in range(230)])

    report = drain(queue)

    assert effects() == list(range(230))
    assert position(queue).next_offset == 230
    assert report.counts == Counter(APPLIED=230)
    tracked = MessageTrack.objects.filter(queue=queue).values_list("offset", flat=True)
    assert sorted(tracked) == list(range(230))


def test_a_second_run_finds_nothing_to_do(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 1}])
    drain(queue, runs=2)
    assert effects() == [1]


def test_arrival_numbers_grow_with_the_log(broker):
    queue = a_queue(broker, batch_size=3)
    broker.send(queue.topic, [{"n": n} for n in range(9)])
    drain(queue)
    rows = Effect.objects.order_by("arrival_batch", "arrival_place").values_list("n", flat=True)
    assert list(rows) == list(range(9))


def test_a_sequential_queue_stops_at_the_first_failure_and_keeps_everything_before_it(broker):
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": n, "do": "bug" if n == 7 else "ok"} for n in range(20)])

    report = drain(queue)

    assert report.ending == "BLOCKED"
    assert effects() == list(range(7))
    where = position(queue)
    assert (where.next_offset, where.state, where.state_code) == (7, "BLOCKED", "HEAD_HELD")
    row = MessageError.objects.get(queue=queue)
    assert (row.state, row.offset, row.code) == ("HOLD", 7, "KEY_ERROR")
    assert where.state_error == row.id
    assert json.loads(bytes(row.payload)) == {"n": 7, "do": "bug"}


def test_retries_of_a_sequential_head_are_counted_and_the_queue_goes_on_when_one_succeeds(broker):
    queue = a_queue(broker, "sequential", max_retries=5)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "until", "until": 3}, {"n": 2}])

    assert drain(queue).ending == "BACKOFF"
    assert position(queue).state == PartitionState.BACKOFF
    assert drain(queue).ending == "BACKOFF"
    assert drain(queue).ending == "DRAINED"

    assert effects() == [0, 1, 2]
    row = MessageError.objects.get(queue=queue)
    assert (row.state, row.ended, row.attempts) == ("RESOLVED", "APPLIED", 3)
    assert list(ErrorAttempt.objects.values_list("number", "ended").order_by("number")) == [
        (1, "RETRY"),
        (2, "RETRY"),
        (3, "APPLIED"),
    ]
    assert position(queue).state == PartitionState.RUNNING


def test_a_released_head_is_processed_from_its_row_with_the_edited_payload(broker):
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}])
    drain(queue)
    MessageError.objects.update(state="READY", edited_payload=b'{"n": 100}', version=5)

    assert drain(queue).ending == "DRAINED"

    assert effects() == [1, 100]
    row = MessageError.objects.get()
    assert row.state == ErrorState.RESOLVED
    assert json.loads(bytes(row.payload)) == {"n": 0, "do": "permanent"}


def test_a_deleted_head_lets_the_queue_pass(broker):
    queue = a_queue(broker, "sequential", max_retries=0)
    broker.send(queue.topic, [{"n": 0, "do": "permanent"}, {"n": 1}])
    drain(queue)
    MessageError.objects.update(state="DELETED", ended="DELETED")
    assert drain(queue).ending == "DRAINED"
    assert effects() == [1]
    assert position(queue).next_offset == 2


def test_a_continuous_queue_goes_on_and_tries_again_from_the_row(broker):
    queue = a_queue(broker, max_retries=2)
    broker.send(
        queue.topic,
        [{"n": 0}, {"n": 1, "do": "until", "until": 2}, {"n": 2, "do": "bug"}, {"n": 3}],
    )
    drain(queue, runs=4)
    assert effects() == [0, 1, 3]
    assert position(queue).next_offset == 4
    by_offset = {row.offset: row for row in MessageError.objects.all()}
    assert (by_offset[1].state, by_offset[1].attempts) == ("RESOLVED", 2)
    assert (by_offset[2].state, by_offset[2].attempts, by_offset[2].spent) == ("HOLD", 3, 2)


def test_a_retry_by_marker_is_written_to_the_outbox_and_done_when_the_marker_comes(broker):
    queue = a_queue(broker, max_retries=2, carrier="topic", retry_delay_seconds=0)
    broker.send(queue.topic, [{"n": 1, "do": "until", "until": 2}])
    drain(queue)
    marker = OutboxRow.objects.get()
    assert (marker.kind, marker.state, bytes(marker.value)) == ("TICKET", "PENDING", b"")
    broker.send(queue.topic, [b""], headers=list(decode_headers(marker.headers)))
    OutboxRow.objects.update(state="PUBLISHED")
    drain(queue)
    assert effects() == [1]
    # The same retry marker again, and a forged one: nothing happens, nothing fails.
    broker.send(queue.topic, [b""], headers=list(decode_headers(marker.headers)))
    broker.send(queue.topic, [b""], headers=[("sluice-ticket", b"\xff\xfe")])
    report = drain(queue)
    assert report.counts == Counter(STALE=2)
    assert effects() == [1]
    assert position(queue).next_offset == 4


def test_a_retry_marker_header_on_a_record_with_a_body_is_an_ordinary_message(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 5}], headers=[("sluice-ticket", b"0" * 36)])
    drain(queue)
    assert effects() == [5]


@pytest.mark.parametrize("interface", ["OBEY", "OBEY.ALONE", "OBEY.BATCH", "OBEY.MUTE"])
@pytest.mark.parametrize("kind", ["sequential", "continuous"])
def test_a_failure_lands_on_its_own_message_and_every_neighbour_commits(broker, kind, interface):
    """Each way to fail, at a known and at an unknown place, in each kind of handler."""
    queue = a_queue(broker, kind, max_retries=0, stay_seconds=0.05)
    deeds = ["ok", "permanent", "ok", "swallow", "orphan", "ok", "timeout", "bug", "ok"]
    headers = [("sluice-interface", interface.encode())]
    broker.send(queue.topic, [{"n": n, "do": do} for n, do in enumerate(deeds)], headers=headers)

    for _ in range(6 if kind == "sequential" else 1):
        drain(queue)
        MessageError.objects.filter(state="HOLD").update(state="DELETED", ended="DELETED")

    assert effects() == [0, 2, 5, 8]
    assert not Child.objects.exists()
    failed = dict(MessageError.objects.values_list("offset", "code"))
    assert sorted(failed) == [1, 3, 4, 6, 7]
    assert failed[1] == "REFUSED"
    assert failed[3] == "SWALLOWED_DATABASE_ERROR"
    assert position(queue).next_offset == len(deeds)


def test_a_deadlock_is_free_five_times_and_then_spends(broker):
    queue = a_queue(broker, max_retries=0)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "deadlock"}, {"n": 2}])
    drain(queue)
    assert effects() == [0, 2]
    assert MessageError.objects.get().code.startswith("DEADLOCK")


def test_an_outage_spends_nothing_and_the_queue_probes_again(broker):
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 0}, {"n": 1, "do": "outage"}, {"n": 2}])
    assert drain(queue).ending == "OUTAGE"
    where = position(queue)
    assert (where.next_offset, where.state) == (1, "OUTAGE")
    assert where.resume_at is not None
    assert not MessageError.objects.exists()
    assert effects() == [0]
    assert drain(queue).ending == "OUTAGE"  # not due yet


def test_a_run_leaves_no_client_to_the_collector(broker):
    """A process can make about a thousand; a worker's makes more in an hour of short runs."""
    queue = a_queue(broker)
    broker.send(queue.topic, [{"n": 0}])
    drain(queue)
    gc.collect()
    gc.disable()
    try:
        before = clients()
        drain(queue, runs=3)
        assert clients() == before
    finally:
        gc.enable()


def clients() -> int:
    return sum(isinstance(thing, Consumer | AdminClient) for thing in gc.get_objects())


def test_published_rows_are_committed_with_the_effects(broker):
    out = a_queue(broker, "continuous", name="out", direction="outbound")
    queue = a_queue(broker, max_retries=0)
    broker.send(
        queue.topic,
        [{"n": 0, "do": "publish"}, {"n": 1, "do": "bug"}, {"n": 2, "do": "publish"}],
    )
    drain(queue)
    rows = OutboxRow.objects.filter(topic=out.topic)
    assert [bytes(row.key) for row in rows] == [b"0", b"2"]
    assert len({row.message_id for row in rows}) == 2


def test_the_failure_threshold_stops_a_queue_where_everything_fails(broker):
    queue = a_queue(broker, max_retries=0, failure_threshold=30, batch_size=10)
    broker.send(queue.topic, [{"n": n, "do": "permanent"} for n in range(100)])
    assert drain(queue).ending == "BRAKED"
    where = position(queue)
    assert (where.state, where.state_code) == ("BRAKED", "SAME_FAILURE_IN_A_ROW")
    assert where.next_offset == 30
    # A released row still runs while Kafka is not read.
    MessageError.objects.filter(offset=0).update(state="READY", edited_payload=b'{"n": 77}')
    drain(queue)
    assert effects() == [77]
    assert position(queue).state == "BRAKED"


def test_dedupe_drops_the_same_content_and_holds_other_content_under_one_id(broker):
    queue = a_queue(broker, dedupe=True)
    same = [("MEAMessageID", b"id-1")]
    broker.send(queue.topic, [{"n": 1}, {"n": 1}, {"n": 2}], headers=same)
    drain(queue)
    broker.send(queue.topic, [{"n": 1}], headers=same)
    report = drain(queue)
    assert effects() == [1]
    assert report.counts == Counter(DUPLICATE=1)
    assert MessageError.objects.get().code == "ID_REUSED"


def test_a_failure_tried_again_where_repeats_are_dropped_is_no_repeat_of_itself(broker):
    queue = a_queue(broker, dedupe=True, max_retries=1, retry_delay_seconds=0, carrier="row")
    bodies = [{"n": 1, "do": "until", "until": 2}, {"n": 2, "do": "permanent"}]
    for body in bodies:
        broker.send(queue.topic, [body], headers=[("MEAMessageID", f"id-{body['n']}".encode())])
    drain(queue, runs=2)
    assert effects() == [1]
    held = MessageError.objects.get(offset=1)
    edited = held.current_payload.replace(b"permanent", b"ok")
    MessageError.objects.filter(pk=held.pk).update(state="READY", edited_payload=edited)
    drain(queue)
    assert effects() == [1, 2]
    endings = MessageError.objects.order_by("offset").values_list("state", "ended")
    assert list(endings) == [("RESOLVED", "APPLIED")] * 2


def test_several_partitions_are_worked_in_one_run(broker):
    queue = a_queue(broker, partitions=3)
    for p in range(3):
        broker.send(queue.topic, [{"n": 10 * p + i} for i in range(5)], partition=p)
    drain(queue)
    assert len(effects()) == 15
    assert [position(queue, p).next_offset for p in range(3)] == [5, 5, 5]


def test_markers_of_transactions_leave_no_lag(broker):
    queue = a_queue(broker)
    broker.send_in_transaction(queue.topic, [{"n": 1}, {"n": 2}])
    drain(queue)
    assert effects() == [1, 2]
    end = broker.end(queue.topic)
    assert end == 3, "two records and the marker behind them"
    assert position(queue).next_offset == end
    broker.send_in_transaction(queue.topic, [{"n": 3}])
    drain(queue)
    assert effects() == [1, 2, 3]
    assert position(queue).next_offset == 5


def test_a_queue_that_is_gone_before_its_run_ends_it_with_a_sentence(broker):
    queue = a_queue(broker)
    QueuePartition.objects.filter(queue=queue).delete()
    number = queue.pk
    queue.delete()
    report = run_queue(number)
    assert (report.ending, report.text) == ("STOPPED", "The queue was deleted.")
