"""The outbox: everything that is to be written to Kafka, committed with its cause."""

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import ArrayField, BigIntegerRangeField, RangeOperators
from django.db import models
from django.db.models import ExpressionWrapper, F, Func

from integration.models.fields import TopicBucket, known_states
from integration.models.provider import Provider
from integration.policy.relay_shares import BUCKETS, EVERYTHING, Share
from integration.policy.states import OutboxKind, OutboxState


class OutboxRow(models.Model):
    """One record for Kafka. `id` is the order; the relay sends due rows in it."""

    # Without an index of its own: each change of state would have to write it, and it would
    # tempt the planner to read all that was ever published.
    provider = models.ForeignKey(
        Provider, on_delete=models.PROTECT, related_name="outbox", db_index=False
    )
    # Always 0: which shard of the relay sends a row is decided by its topic, when it is read.
    shard = models.SmallIntegerField(default=0)
    topic = models.CharField(max_length=249)
    partition = models.IntegerField(null=True)
    key = models.BinaryField(null=True)
    headers = models.JSONField(default=list, help_text="[[name, base64 or null], …]")
    value = models.BinaryField(null=True)
    kind = models.CharField(max_length=8, choices=[(k.value, k.value) for k in OutboxKind])
    message_id = models.TextField(blank=True)
    error = models.UUIDField(null=True, help_text="the failure a retry marker or copy belongs to")
    retry_no = models.IntegerField(null=True)
    strict_queue = models.IntegerField(null=True, help_text="the strict queue whose order it keeps")
    not_before = models.DateTimeField(null=True)
    timestamp_ms = models.BigIntegerField(
        null=True, help_text="The record's time in Kafka; empty = when it is written there."
    )
    state = models.CharField(
        max_length=10,
        choices=[(s.value, s.value) for s in OutboxState],
        default=OutboxState.PENDING.value,
    )
    batch = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    published_at = models.DateTimeField(null=True)
    dead_code = models.CharField(max_length=60, blank=True)
    dead_text = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [known_states(OutboxState, "outbox_state_known")]
        indexes = [
            # Rows that are due at once come in id order from it, the others by their time: any
            # number of retry markers that wait costs the relay nothing. What is of other shards
            # is passed in the index, by the bucket of its topic.
            models.Index(
                *("provider", "shard", "not_before", "id", TopicBucket("topic")),
                name="outbox_due",
                condition=models.Q(state="PENDING"),
            ),
            models.Index(
                fields=["strict_queue", "id"],
                name="outbox_dead_strict",
                condition=models.Q(state="DEAD", strict_queue__isnull=False),
            ),
            # What waits for a person is found without a look at all that was ever sent.
            models.Index(fields=["id"], name="outbox_dead", condition=models.Q(state="DEAD")),
            models.Index(
                fields=["provider", "shard"],
                name="outbox_stamped",
                condition=models.Q(state="STAMPED"),
            ),
            models.Index(
                fields=["error"], name="outbox_by_error", condition=models.Q(error__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.id}: {self.kind} to {self.topic}"


def _held_buckets() -> Func:
    """What a lease holds as one range, in which no two providers have the same numbers.

    It is empty where first and end are equal, and overlaps nothing then.
    """
    begin = F("provider") * BUCKETS
    first, end = (
        ExpressionWrapper(begin + F(place), output_field=models.BigIntegerField())
        for place in ("first_bucket", "end_bucket")
    )
    return Func(first, end, function="int8range", output_field=BigIntegerRangeField())


class RelayLease(models.Model):
    """The relay's owner for one shard of one provider, and whether its last batch is in doubt."""

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE)
    shard = models.SmallIntegerField(default=0)
    # The topics that it sends.
    first_bucket = models.PositiveSmallIntegerField(
        default=EVERYTHING.first, db_default=EVERYTHING.first, help_text="The first it holds."
    )
    end_bucket = models.PositiveSmallIntegerField(
        default=EVERYTHING.end,
        db_default=EVERYTHING.end,
        help_text="The first it does not hold any more; it holds none if this is the same.",
    )
    owner = models.CharField(max_length=200, blank=True)
    epoch = models.BigIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    seen_at = models.DateTimeField(null=True)
    in_doubt_since = models.DateTimeField(null=True)
    in_doubt_text = models.TextField(blank=True)
    trouble = models.TextField(
        blank=True, db_default="", help_text="Why the relay waits for Kafka; empty = it does not."
    )
    batch = models.UUIDField(null=True, help_text="The batch on its way to Kafka.")
    # One small write for a whole batch: its rows are only written again when they are in Kafka.
    batch_rows = ArrayField(models.BigIntegerField(), null=True)
    # Null while none was ever noted, empty when Kafka has none: the two mean different things.
    watermark = models.CharField(  # noqa: DJ001 - as above
        max_length=36, null=True, help_text="The last batch known to be in Kafka; as Kafka has it."
    )
    watermark_before = models.CharField(
        max_length=36,
        blank=True,
        default="",
        db_default="",
        help_text="The batch before it; empty = none that is known.",
    )
    watermark_rows = ArrayField(
        models.BigIntegerField(), null=True, help_text="The rows of the last batch in Kafka."
    )
    cluster = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="The cluster that has them, by its own id; empty = not noted yet.",
    )
    provider_as_of = models.TextField(
        blank=True,
        default="",
        db_default="",
        help_text="What the provider was then: another text after a change; empty = not noted yet.",
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "shard"], name="one_relay_per_shard"),
            # A topic has one sender, whatever a relay believes.
            ExclusionConstraint(
                name="one_holder_per_bucket",
                expressions=[(_held_buckets(), RangeOperators.OVERLAPS)],
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider_id}/{self.shard}"

    @property
    def held(self) -> Share:
        """The share of all topics that it holds."""
        return Share(self.first_bucket, self.end_bucket)


def of_lease(lease: RelayLease) -> models.QuerySet[OutboxRow]:
    """The rows whose topics the lease holds."""
    rows = OutboxRow.objects.filter(provider=lease.provider_id, shard=0)
    if lease.held == EVERYTHING:
        return rows
    within = {"bucket__gte": lease.first_bucket, "bucket__lt": lease.end_bucket}
    return rows.alias(bucket=TopicBucket("topic")).filter(**within)


class OutboxChange(models.Model):
    """One decision of a person about an outgoing row or a batch in doubt. Never changed later.

    It names its row by number only: cleanup removes rows, and what was decided stays.
    """

    provider = models.ForeignKey(Provider, on_delete=models.CASCADE, db_index=False)
    shard = models.SmallIntegerField(default=0)
    row = models.BigIntegerField(null=True, help_text="Empty for a whole batch in doubt.")
    batch = models.UUIDField(null=True, help_text="The relay's batch as the person saw it.")
    topic = models.CharField(max_length=249, blank=True)
    count = models.IntegerField(default=1, help_text="How many rows it changed.")
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=20)
    from_state = models.CharField(max_length=10)
    to_state = models.CharField(max_length=10)
    why_before = models.TextField(blank=True, help_text="Why it waited for a person.")
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["row"], name="outbox_change_row"),
            models.Index(fields=["-at", "-id"], name="outbox_change_recent"),
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"
