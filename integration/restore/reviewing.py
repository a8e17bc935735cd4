"""Messages that may have been delivered already, laid out for people as failures on hold."""

from collections.abc import Iterator
from typing import Final

from django.db.models import F

from integration.actions.errors import QueueMismatchError
from integration.actions.failures import cancel_retry_markers
from integration.codec import encode_headers
from integration.delivery.key_order import order_key_of
from integration.delivery.reading import Reader
from integration.delivery.unit import Unit
from integration.kafka import admin, aftermath
from integration.models import Delivery, ErrorChange, MessageError, Queue, RestoreFinding
from integration.policy.failure import Failure, FailureClass
from integration.policy.states import DeliveryState, ErrorState
from integration.store.configuration import snapshot
from integration.store.deliveries import HELD_CODE
from integration.store.sessions import database_now, next_arrival
from integration.values import Record
from integration.worker import worker_name

ROWS_AT_ONCE: Final = 500
PORTION_BYTES: Final = 8_000_000
WAITING: Final = (ErrorState.RETRY, ErrorState.READY, ErrorState.PARKED)
REVIEW: Final = Failure(
    FailureClass.PERMANENT,
    "RESTORED_REVIEW",
    "The database was restored, and this message may have been delivered before. Ask the partner: "
    "release it if it is missing there, say that it arrived if it is not.",
)


def first_kept(finding: RestoreFinding) -> int:
    """Return the first of these offsets that Kafka still has; the one behind them if none is left.

    Raises QueueMismatchError, BrokerUnreachableError, ProviderUnusableError.
    """
    assert finding.queue is not None and finding.partition is not None  # noqa: S101, PT018 - of a position
    queue = Queue.objects.select_related("provider").get(pk=finding.queue)
    topic = admin.topic_facts(queue.provider, queue.topic)
    if topic is None or topic.topic_uuid != finding.facts["topic_uuid"]:
        raise QueueMismatchError("The topic is not the one that this was found in. Look again.")
    low = topic.low.get(finding.partition, 0)
    return int(min(max(finding.facts["from"], low), finding.facts["to"]))


def lay_out(finding: RestoreFinding, first: int) -> int:
    """Write each message that the lost database had gone through as a failure on hold.

    Those before the offset `first` are gone. One whose row is there already keeps it. There may be
    thousands of large ones, so they are read and written in portions. Returns how many there are.
    Raises BrokerUnreachableError, ProviderUnusableError.
    """
    arrival = next_arrival()
    # A key that stands in the document is not read here: such a message holds nobody back.
    by_record_key = not Queue.objects.filter(pk=finding.queue or 0).exclude(order_path="").exists()
    count = size = 0
    rows: list[MessageError] = []
    for unit in _units_of(finding, first):
        rows.append(_row(finding, unit, arrival, by_record_key=by_record_key))
        count, size = count + 1, size + _size_of(unit.record)
        if size >= PORTION_BYTES or len(rows) >= ROWS_AT_ONCE:
            MessageError.objects.bulk_create(rows, ignore_conflicts=True)
            rows, size = [], 0
    MessageError.objects.bulk_create(rows, ignore_conflicts=True)
    return count


def _units_of(finding: RestoreFinding, first: int) -> Iterator[Unit]:
    """Yield these messages as the queue reads them."""
    assert finding.queue is not None and finding.partition is not None  # noqa: S101, PT018 - of a position
    queue = Queue.objects.select_related("provider").get(pk=finding.queue)
    offsets = first, finding.facts["to"]
    places = queue.partitions.filter(topic_uuid=finding.facts["topic_uuid"])
    generations = dict(places.values_list("partition", "generation"))
    reader = Reader(snapshot(queue.pk, worker=worker_name()), generations=generations)
    records = aftermath.records_between(queue.provider, queue.topic, finding.partition, offsets)
    return map(reader.unit, records)


def _size_of(record: Record) -> int:
    texts = [record.key, record.value, *(value for _, value in record.headers or ())]
    return sum(len(text or b"") for text in texts)


def _row(finding: RestoreFinding, unit: Unit, arrival: int, *, by_record_key: bool) -> MessageError:
    record = unit.record
    assert finding.queue is not None  # noqa: S101 - of a position
    return MessageError(
        queue_id=finding.queue,
        topic_uuid=finding.facts["topic_uuid"],
        partition=record.partition,
        offset=record.offset,
        message_id=unit.message_id,
        interface=unit.interface[:100],
        key=record.key,
        order_key=order_key_of(record) if by_record_key else None,
        headers=encode_headers(record.headers),
        payload=record.value,
        state=ErrorState.HOLD,
        failure_class=REVIEW.kind,
        code=REVIEW.code,
        text=REVIEW.text,
        fingerprint=REVIEW.fingerprint,
        arrival_batch=arrival,
        arrival_index=record.offset,
        first_failed_at=database_now(),
        last_failed_at=database_now(),
    )


def hold_interrupted(queue: int) -> int:
    """Have the next run put on hold what was being sent at the backup; returns how many calls.

    Otherwise it would send them again where their endpoint drops repeats.
    """
    calls = Delivery.objects.filter(queue=queue, state=DeliveryState.SENDING)
    return calls.update(code=HELD_CODE)


def hold_waiting(queue: int, actor: str, reason: str) -> int:
    """Put what waits for another delivery on hold; returns how many there were."""
    rows = list(
        MessageError.objects.select_for_update()
        .filter(queue=queue, state__in=WAITING)
        .order_by("pk")
        .values_list("pk", "state")
    )
    ids = [pk for pk, _ in rows]
    MessageError.objects.filter(pk__in=ids).update(
        state=ErrorState.HOLD, version=F("version") + 1, not_before=None
    )
    cancel_retry_markers(ids)
    ErrorChange.objects.bulk_create(
        (
            ErrorChange(
                error_id=pk,
                at=database_now(),
                actor=actor,
                action="hold",
                from_state=state,
                to_state=ErrorState.HOLD,
                reason=reason or REVIEW.text,
            )
            for pk, state in rows
        ),
        batch_size=ROWS_AT_ONCE,
    )
    return len(ids)
