"""An error queue: our own copies are linked to their failures, strangers' are kept for a person."""

import uuid

import pytest

from integration.actions import failures
from integration.actions.blocks import move_position
from integration.codec import decode_headers
from integration.models import MessageError, OutboxRow, Queue
from integration.runs.queues import run_queue
from tests.support.builders import a_brief_queue as a_queue
from tests.support.kafka_world import Kafka
from tests.support.world.models import Effect

pytestmark = [pytest.mark.servers, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def broker(servers) -> Kafka:
    return Kafka(servers.kafka_bootstrap)


@pytest.fixture
def error_queue(broker) -> Queue:
    return a_queue(broker, "sequential", is_error_queue=True)


def test_a_held_message_is_copied_and_its_copy_linked_to_its_row(broker, error_queue):
    queue = a_queue(broker, max_retries=0, error_queue=error_queue)
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}])
    run_queue(queue.pk)
    copy_row = OutboxRow.objects.get(kind="MIRROR")
    assert (copy_row.topic, MessageError.objects.get().copied_at is None) == (
        error_queue.topic,
        False,
    )

    broker.send(error_queue.topic, [{"n": 0}])  # a stranger's, so that offsets differ
    copy = list(decode_headers(copy_row.headers))
    broker.send(error_queue.topic, [bytes(copy_row.value)], headers=copy)
    lost = [(name, value) for name, value in copy if name != "sluice-error"]
    nobody = [*lost, ("sluice-error", str(uuid.uuid4()).encode())]
    broker.send(error_queue.topic, [bytes(copy_row.value)], headers=nobody)
    run_queue(error_queue.pk)

    assert MessageError.objects.get(queue=queue).copy_offset == 1
    strangers = MessageError.objects.filter(queue=error_queue)
    assert [(row.offset, row.code, row.state) for row in strangers] == [
        (0, "FOREIGN_FAILURE", "HOLD")
    ]
    assert error_queue.partitions.get().next_offset == 3


def test_a_failure_that_is_opened_again_is_copied_again(broker, error_queue):
    queue = a_queue(broker, max_retries=0, error_queue=error_queue)
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}])
    run_queue(queue.pk)
    error = MessageError.objects.get()
    failures.delete(error.pk, version=error.version, actor="ann", reason="not wanted")
    move_position(queue.partitions.get(), 0)
    run_queue(queue.pk)
    error.refresh_from_db()
    assert (error.state, error.copied_at is None) == ("HOLD", False)
    copies = OutboxRow.objects.filter(kind="MIRROR")
    named = [(row.error, dict(decode_headers(row.headers))["sluice-error"]) for row in copies]
    assert named == [(error.pk, str(error.pk).encode())] * 2


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"sluice-error": b"not-a-uuid"},
        {"sluice-deployment": b"another"},
        {"sluice-digest": b""},
    ],
)
def test_a_message_written_anew_under_copied_headers_is_a_strangers(broker, error_queue, changed):
    """Nobody would miss it: it stands nowhere else."""
    queue = a_queue(broker, max_retries=0, error_queue=error_queue)
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}])
    run_queue(queue.pk)
    copy_row = OutboxRow.objects.get(kind="MIRROR")
    headers = dict(decode_headers(copy_row.headers)) | changed
    value = bytes(copy_row.value) if changed else b'{"n": 2}'
    broker.send(error_queue.topic, [value], headers=list(headers.items()))
    run_queue(error_queue.pk)
    assert MessageError.objects.get(queue=error_queue).code == "FOREIGN_FAILURE"
    assert MessageError.objects.get(queue=queue).copy_offset is None


def test_a_copy_links_no_failure_of_a_queue_that_feeds_another(broker, error_queue):
    other = a_queue(broker, "sequential", is_error_queue=True)
    queue = a_queue(broker, max_retries=0, error_queue=other)
    broker.send(queue.topic, [{"n": 1, "do": "permanent"}])
    run_queue(queue.pk)
    copy_row = OutboxRow.objects.get(kind="MIRROR")
    copy = list(decode_headers(copy_row.headers))
    broker.send(error_queue.topic, [bytes(copy_row.value)], headers=copy)
    run_queue(error_queue.pk)
    assert MessageError.objects.get(queue=queue).copy_offset is None


def test_a_strangers_failure_can_be_released_and_is_then_processed(broker, error_queue):
    broker.send(error_queue.topic, [{"n": 7}, {"n": 8}])
    run_queue(error_queue.pk)
    MessageError.objects.filter(offset=1).update(state="READY")
    run_queue(error_queue.pk)
    assert list(Effect.objects.values_list("n", flat=True)) == [8]


def test_strict_order_blocks_at_the_first_failure_until_it_is_closed(broker):
    strict = a_queue(broker, "sequential", is_error_queue=True, strict_order=True)
    broker.send(strict.topic, [{"n": 1}, {"n": 2}])
    assert run_queue(strict.pk).ending == "BLOCKED"
    assert MessageError.objects.filter(queue=strict).count() == 1
    MessageError.objects.update(state="DELETED", ended="DELETED")
    run_queue(strict.pk)
    assert sorted(MessageError.objects.values_list("offset", flat=True)) == [0, 1]
    assert strict.partitions.get().next_offset == 1


@pytest.fixture
def strict(broker) -> Queue:
    return a_queue(broker, "sequential", is_error_queue=True, strict_order=True)


def two_held(broker: Kafka, strict: Queue) -> tuple[Queue, MessageError, MessageError]:
    """Two held messages, mended by hand, with their copies on the strict error queue."""
    queue = a_queue(broker, max_retries=0, error_queue=strict)
    broker.send(queue.topic, [{"n": n, "do": "permanent"} for n in (1, 2)])
    run_queue(queue.pk)
    for error in MessageError.objects.filter(queue=queue):
        mended = bytes(error.payload or b"").replace(b"permanent", b"ok")
        MessageError.objects.filter(pk=error.pk).update(edited_payload=mended)
    for copy_row in OutboxRow.objects.filter(kind="MIRROR").order_by("id"):
        broker.send(
            strict.topic, [bytes(copy_row.value)], headers=list(decode_headers(copy_row.headers))
        )
    first, second = MessageError.objects.filter(queue=queue).order_by("offset")
    return queue, first, second


def release(error: MessageError) -> None:
    error.refresh_from_db()
    failures.release(error.pk, version=error.version, actor="ann")


def test_in_strict_order_a_released_row_waits_for_the_one_before_it(broker, strict):
    queue, first, second = two_held(broker, strict)
    assert run_queue(strict.pk).ending == "BLOCKED"
    place = strict.partitions.get()
    first.refresh_from_db()
    assert (place.next_offset, place.state_error, first.copy_offset) == (0, first.pk, 0)

    release(second)
    run_queue(queue.pk)
    assert Effect.objects.count() == 0
    release(first)
    run_queue(strict.pk)
    assert (Effect.objects.count(), strict.partitions.get().next_offset) == (0, 0)
    run_queue(queue.pk)
    assert list(Effect.objects.order_by("pk").values_list("n", flat=True)) == [1, 2]
    assert run_queue(strict.pk).ending == "DRAINED"
    assert strict.partitions.get().next_offset == 2


def test_in_strict_order_deleting_the_first_lets_the_second_go(broker, strict):
    queue, first, second = two_held(broker, strict)
    run_queue(strict.pk)
    release(second)
    failures.delete(first.pk, version=first.version, actor="ann", reason="not wanted")
    run_queue(queue.pk)
    assert Effect.objects.get().n == 2
    run_queue(strict.pk)
    assert strict.partitions.get().next_offset == 2


def test_in_strict_order_a_copy_that_expired_gives_its_place_up(broker, strict):
    queue, first, second = two_held(broker, strict)
    run_queue(strict.pk)
    release(second)
    broker.delete_records(strict.topic, 1)
    run_queue(strict.pk)
    assert strict.partitions.get().state_error == second.pk
    run_queue(queue.pk)
    assert Effect.objects.get().n == 2
    release(first)
    run_queue(queue.pk)
    assert Effect.objects.count() == 2
