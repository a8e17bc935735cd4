"""Run a queue in this process and read in SQL what became of its messages."""

from integration.delivery.report import Report
from integration.models import MessageError, MessageTrack, Queue, QueuePartition
from integration.runs.queues import run_queue
from tests.support.world.models import Effect


def drain(queue: Queue, runs: int = 1) -> Report:
    """Run the queue some times, as the dispatcher would; the last run's report."""
    report = Report()
    for _ in range(runs):
        report = run_queue(queue.pk)
    return report


def drain_past(queue: Queue, records: int) -> None:
    """Run the queue until it has passed so many records, however long a busy machine takes."""
    for _ in range(100):
        drain(queue)
        passed = QueuePartition.objects.filter(queue=queue).values_list("next_offset", flat=True)
        if sum(passed) >= records:
            return
    raise AssertionError(f"{sum(passed)} of {records} records were read")


def position(queue: Queue, partition: int = 0) -> QueuePartition:
    return QueuePartition.objects.get(queue=queue, partition=partition)


def standing(queue: Queue) -> tuple[int, str, str]:
    """Where the queue's first partition stands: next offset, state and its code."""
    where = position(queue)
    return where.next_offset, where.state, where.state_code


def effects() -> list[int]:
    """What handlers have applied, with repetitions."""
    return sorted(Effect.objects.values_list("n", flat=True))


def held(queue: Queue) -> dict[int, str]:
    """The code of each failure that waits for a person, by offset."""
    rows = MessageError.objects.filter(queue=queue, state="HOLD")
    return dict(rows.values_list("offset", "code").order_by("offset"))


def ended(queue: Queue) -> dict[int, str]:
    """How each offset ended; fails when one ended twice."""
    rows = list(
        MessageTrack.objects.filter(queue=queue)
        .exclude(ended="RETRY")
        .values_list("offset", "ended")
        .order_by("offset")
    )
    assert len(rows) == len(dict(rows)), "offsets that ended more than once"
    return dict(rows)


def delete_held(queue: Queue) -> None:
    """A person deletes whatever is held."""
    MessageError.objects.filter(queue=queue, state="HOLD").update(state="DELETED", ended="DELETED")
