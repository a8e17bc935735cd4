"""The engine's position on each partition, who owns it, and what it passed over."""

import uuid
from collections.abc import Iterator

from django.contrib.postgres.fields import ArrayField
from django.db import models

from integration.models.fields import known_states
from integration.models.queue import Queue
from integration.policy.positions import untried
from integration.policy.states import PartitionState


class QueuePartition(models.Model):
    """The position of one partition: the one truth, written in the batch's own transaction.

    Every engine write carries `epoch` and changes nothing when it is no longer its own.
    """

    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="partitions")
    partition = models.IntegerField()
    topic_uuid = models.CharField(max_length=36)
    generation = models.PositiveIntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="How often its offsets were given to other messages: the topic was made anew or "
        "lost its end, and that was adopted. Ids that are made of offsets have it.",
    )
    next_offset = models.BigIntegerField()
    moved_at = models.DateTimeField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="When a person last moved it: a failure that was closed before does not keep "
        "the message from being read again.",
    )
    moved_from = models.BigIntegerField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="How far it had come before that move. What was closed there or beyond was not "
        "passed since: it is not tried again.",
    )
    moves_before = models.JSONField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="Earlier moves from beyond that place, the last one first: "
        "[{at: when, until: how far it had come}].",
    )
    lost_from = models.BigIntegerField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="Where the topic ended when it was found to have lost what was read of it: from "
        "there on its offsets are those of other messages. Until a person adopts it.",
    )
    epoch = models.BigIntegerField(default=0)
    last_batch = models.UUIDField(null=True)

    state = models.CharField(
        max_length=10,
        choices=[(s.value, s.value.capitalize()) for s in PartitionState],
        default=PartitionState.RUNNING,
    )
    state_code = models.CharField(max_length=60, blank=True)
    state_text = models.TextField(blank=True)
    state_since = models.DateTimeField(null=True)
    state_error = models.UUIDField(null=True, help_text="The failure that blocks or delays it.")
    resume_at = models.DateTimeField(null=True)
    probes = models.IntegerField(default=0)

    # Of a batch that is worked side by side: what is through beyond the position, and the arrival
    # number that what stands open keeps.
    done_offsets = ArrayField(models.BigIntegerField(), default=list, db_default=[], editable=False)
    open_from = models.BigIntegerField(
        null=True, help_text="Where the position was when that batch began."
    )
    open_until = models.BigIntegerField(
        null=True, help_text="The first offset behind it; at or beyond it nothing is done yet."
    )
    open_arrival = models.BigIntegerField(null=True)

    begins_after = models.JSONField(
        null=True,
        help_text="Of a partition that was added where keys keep their order: {partition: offset} "
        "that the others have to reach before it begins.",
    )
    producers_know_at = models.DateTimeField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="Of such a partition: from when on producers know of it. Until then they may "
        "write its keys to the others, whose ends are read anew afterwards; then this is empty.",
    )

    # Where people want it to stop; a person's resumption takes both away.
    stop_at = models.BigIntegerField(
        null=True,
        help_text="No record at or beyond this offset is applied; the queue is paused there.",
    )
    stop_request = models.BigIntegerField(
        null=True, help_text="The decision that asks for it: a QueueChange, as long as it is kept."
    )

    # A crash suspect's marker: the message that is alone in work, and how often work died on it.
    unclean_ends = models.IntegerField(default=0)
    unclean_offset = models.BigIntegerField(null=True)
    rows_alone = models.IntegerField(
        default=0,
        db_default=0,
        editable=False,
        help_text="So many failures ran alone since the last unclean end, and nothing died of one.",
    )
    suspect_offset = models.BigIntegerField(null=True)
    suspect_receipt = models.BinaryField(
        null=True,
        help_text="At a JMS broker: what tells that message from all others. Another one may get "
        "its offset.",
    )
    suspect_crashes = models.IntegerField(default=0)
    suspect_hung = models.BooleanField(default=False, db_default=False)
    marked_at = models.DateTimeField(null=True)

    # What stands rescued is in integration.models.rescue; here is how the last rescue ended.
    rescued_to = models.BigIntegerField(
        null=True, help_text="The end of what was rescued of this topic last."
    )
    rescued_at = models.DateTimeField(null=True)
    rescue_code = models.CharField(max_length=60, blank=True, default="", db_default="")
    rescue_text = models.TextField(blank=True, default="", db_default="")

    # What the broker said last, for the console; never used to decide.
    low_watermark = models.BigIntegerField(null=True)
    high_watermark = models.BigIntegerField(null=True)
    more_waiting = models.BooleanField(
        default=False,
        db_default=False,
        editable=False,
        help_text="At a JMS broker: high_watermark is where counting ended; more may wait.",
    )
    oldest_waiting_at = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    progressed_at = models.DateTimeField(null=True)
    idle_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="Since when the watch of idle queues sees that its log ends at the position; "
        "as long as that is at work, see Provider.idle_watched_at.",
    )

    class Meta:
        ordering = ["queue", "partition"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "partition"], name="one_row_per_partition"),
            known_states(PartitionState, "partition_state_known"),
            models.CheckConstraint(
                condition=~models.Q(state=PartitionState.BACKOFF.value)
                | models.Q(resume_at__isnull=False),
                name="backoff_has_an_end",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue.name}[{self.partition}]"

    @property
    def lag(self) -> int | None:
        """Messages between the position and the end of the partition, as last seen.

        None where nobody has looked, or all that was counted is through and there were more.
        """
        if self.high_watermark is None:
            return None
        lag = max(0, self.high_watermark - self.next_offset)
        return None if self.more_waiting and not lag else lag

    @property
    def done_ahead(self) -> list[int]:
        """Return the offsets beyond the position that are through already, in order."""
        if self.open_until is None or self.next_offset >= self.open_until:
            return []
        return sorted(offset for offset in self.done_offsets if offset >= self.next_offset)

    def untried(self, first: int, after: int) -> Iterator[tuple[int, int]]:
        """Return what of [first, after) is not through: ranges (first, first after)."""
        return untried(first, after, self.done_ahead)


class PartitionLease(models.Model):
    """The owner of a partition. A row of its own, so that no batch blocks its renewal."""

    partition = models.OneToOneField(
        QueuePartition, on_delete=models.CASCADE, primary_key=True, related_name="lease"
    )
    owner = models.CharField(max_length=200)
    epoch = models.BigIntegerField()
    lock_pid = models.IntegerField()
    lock_backend_start = models.DateTimeField()
    batch_pid = models.IntegerField(null=True)
    batch_backend_start = models.DateTimeField(null=True)
    # The sessions of its threads, in the same order.
    thread_pids = ArrayField(models.IntegerField(), default=list, db_default=[], editable=False)
    thread_backend_starts = ArrayField(
        models.DateTimeField(), default=list, db_default=[], editable=False
    )
    lease_until = models.DateTimeField()
    overdue = models.BooleanField(
        default=False,
        db_default=False,
        help_text="A call has taken longer than the handler timeout.",
    )
    working_since = models.DateTimeField(
        null=True, help_text="When the call began that was under way at the last renewal."
    )
    rescues = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Taken to copy records, not to apply them: its death says nothing of a message.",
    )
    group_member = models.CharField(
        max_length=250,
        blank=True,
        default="",
        db_default="",
        editable=False,
        help_text="In group mode: the member to which the consumer group had assigned it.",
    )
    taken_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.partition_id} by {self.owner}"


class BatchLog(models.Model):
    """The arrival number that a range of offsets got, so that a replay finds it again."""

    number = models.BigIntegerField(primary_key=True)
    # One row for each batch: the constraint would look at the partition's row again each time, and
    # the index below begins with it anyway.
    partition = models.ForeignKey(
        QueuePartition, on_delete=models.CASCADE, db_constraint=False, db_index=False
    )
    topic_uuid = models.CharField(max_length=36)
    from_offset = models.BigIntegerField()
    to_offset = models.BigIntegerField()
    committed_at = models.DateTimeField()
    ended_at = models.DateTimeField(
        null=True, help_text="Of a batch that is committed in parts: when the last one was so far."
    )

    class Meta:
        indexes = [models.Index(fields=["partition", "to_offset"], name="batch_log_by_offset")]

    def __str__(self) -> str:
        return f"{self.number}: {self.from_offset}-{self.to_offset}"


class Gap(models.Model):
    """Offsets that were passed without being tried. Nothing is skipped silently."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    partition = models.ForeignKey(QueuePartition, on_delete=models.CASCADE, related_name="gaps")
    topic_uuid = models.CharField(max_length=36)
    from_offset = models.BigIntegerField()
    to_offset = models.BigIntegerField(help_text="first offset after the gap")
    reason = models.CharField(max_length=60)
    found_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True)

    class Meta:
        ordering = ["-found_at"]

    def __str__(self) -> str:
        return f"{self.partition}: {self.from_offset}-{self.to_offset}"
