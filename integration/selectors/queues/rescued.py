"""What of a queue stands rescued: how much, since when, why, and how the last rescue ended."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import F, Max, Min, Sum

from integration.counting import listed, so_many
from integration.models import Queue, QueuePartition, Rescue
from integration.selectors.queues.status import Situation

MEBIBYTE: Final = 2**20
REASONS: Final = {
    "OFF": "was switched off",
    "PAUSED": "was paused",
    "BLOCKED": "was blocked",
    "BRAKED": "had stopped at its failure threshold",
    "OUTAGE": "waited for an outage to end",
    "WAITING": "waited for something switched off",
    "BACKOFF": "waited for a retry",
    "LATE": "had fallen behind",
}
GET_GOING: Final = "Get the queue going: what was rescued is read first, in its order."
_STEPS: Final = {
    "RESCUE_FULL": "Raise the queue's rescue limit, get the queue going, or lengthen retention.ms "
    "of the topic; the rescue goes on by itself.",
    "RESCUE_SILENT": "Check whether the topic can be read; the rescue is tried again by itself.",
}
_STEP: Final = "See to what the sentence says; the rescue is tried again by itself."


def stopped_as(code: str, text: str) -> Situation:
    """Tell why a rescue ended before its time, and what to do."""
    return Situation(f"{code}: {text}", _STEPS.get(code, _STEP))


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A partition whose rescue ended before all was copied that is in danger."""

    partition: int
    code: str
    text: str

    @property
    def situation(self) -> Situation:
        return stopped_as(self.code, self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuedRow:
    """What stands in the database of one queue. `records` may count some that were read since."""

    records: int
    bytes: int
    limit_bytes: int
    since: datetime | None
    grew_at: datetime | None
    reasons: tuple[str, ...]
    stopped: tuple[Stopped, ...]

    @property
    def why(self) -> str:
        """What kept the queue from reading them, as the end of a sentence."""
        return listed([REASONS.get(reason, reason) for reason in self.reasons], len(REASONS))

    @property
    def megabytes(self) -> float:
        return self.bytes / MEBIBYTE

    @property
    def limit_megabytes(self) -> int:
        return self.limit_bytes // MEBIBYTE

    @property
    def text(self) -> str:
        """The sentence for check_flow."""
        return (
            f"{so_many(self.records, 'message')} ({self.megabytes:,.1f} of "
            f"{self.limit_megabytes:,} MiB) were copied into the database before the topic could "
            f"forget them, as the queue {self.why}."
        )


def rescued(queue: Queue) -> RescuedRow | None:
    """What stands rescued of a queue; None where nothing does, and no rescue has stopped."""
    standing = Rescue.objects.filter(
        partition__queue=queue,
        topic_uuid=F("partition__topic_uuid"),
        to_offset__gt=F("partition__next_offset"),
    ).order_by()
    stopped = tuple(
        Stopped(partition=row.partition, code=row.rescue_code, text=row.rescue_text)
        for row in QueuePartition.objects.filter(queue=queue).exclude(rescue_code="")
    )
    sums = standing.aggregate(
        records=Sum("records"), size=Sum("bytes"), since=Min("began_at"), grew_at=Max("grew_at")
    )
    if sums["records"] is None and not stopped:
        return None
    return RescuedRow(
        records=sums["records"] or 0,
        bytes=sums["size"] or 0,
        limit_bytes=queue.rescue_limit_mb * MEBIBYTE,
        since=sums["since"],
        grew_at=sums["grew_at"],
        reasons=tuple(sorted(set(standing.values_list("reason", flat=True)))),
        stopped=stopped,
    )
