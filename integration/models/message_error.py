"""The error table: every failure is a row that a person can read, fix, release or delete."""

import uuid

from django.contrib.postgres.indexes import HashIndex
from django.db import models
from django.db.models.functions import MD5, Coalesce

from integration.models.fields import RecordTimeField, known_states
from integration.models.queue import Queue
from integration.policy.retry import RetrySource
from integration.policy.states import CLOSED, DUE, OPEN, Ended, ErrorState, in_order


class MessageError(models.Model):
    """One failed message. It keeps its id for life, also when it is edited.

    Identity is the first position: (queue, topic UUID, partition, offset), never the message
    id. `attempts` counts settled tries, `retry_no` the retries for life, `spent` those since
    the last release; the time limit of the retries runs from `budget_since`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    # Two indexes below begin with it.
    queue = models.ForeignKey(
        Queue, on_delete=models.PROTECT, related_name="errors", db_index=False
    )
    topic_uuid = models.CharField(max_length=36)
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    kafka_timestamp = RecordTimeField(null=True)

    message_id = models.TextField(blank=True)
    interface = models.CharField(max_length=100, blank=True)
    sender = models.CharField(max_length=200, blank=True)
    key = models.BinaryField(null=True)
    order_key = models.BinaryField(
        null=True, help_text="what messages that keep their order have in common, hashed"
    )
    headers = models.JSONField(default=list, help_text="[[name, base64 or null], …] as they came")
    payload = models.BinaryField(null=True, help_text="the record's value, byte for byte")
    edited_payload = models.BinaryField(null=True)
    edited_by = models.CharField(max_length=150, blank=True)
    edited_at = models.DateTimeField(null=True)

    state = models.CharField(
        max_length=10, choices=[(s.value, s.value.capitalize()) for s in ErrorState]
    )
    failure_class = models.CharField(max_length=12)
    code = models.CharField(max_length=60)
    text = models.TextField(blank=True)
    detail = models.TextField(blank=True)
    fingerprint = models.CharField(max_length=16, blank=True)
    attempts = models.IntegerField(default=0)
    retry_no = models.IntegerField(default=0)
    spent = models.IntegerField(default=0)
    crashes = models.IntegerField(default=0)
    not_before = models.DateTimeField(null=True)
    carrier = models.CharField(max_length=10, choices=Queue.Carrier.choices, default="row")
    retry_by = models.CharField(
        max_length=10,
        choices=[(source.value, source.value) for source in RetrySource],
        blank=True,
        default="",
        db_default="",
        help_text="whose rule decided about its retries last",
    )
    budget_since = models.DateTimeField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="The first failure since it was released or parked; null = the first of all.",
    )
    arrival_batch = models.BigIntegerField(null=True)
    arrival_index = models.BigIntegerField(null=True)
    late = models.BooleanField(default=False)
    apply_as_newest = models.BooleanField(default=False)
    newest_batch = models.BigIntegerField(
        null=True,
        default=None,
        db_default=None,
        editable=False,
        help_text="Treated as the newest: the arrival number that the first try drew for it.",
    )
    newest_index = models.BigIntegerField(null=True, default=None, db_default=None, editable=False)
    version = models.IntegerField(default=1)
    parked_at = models.DateTimeField(
        null=True, help_text="Since then others may pass it: behind its key, or by a decision."
    )
    waits_kind = models.CharField(
        max_length=100, blank=True, db_default="", help_text="what it waits for: kind and key"
    )
    waits_key = models.CharField(max_length=500, blank=True, db_default="")
    waits_for = models.BinaryField(null=True, help_text="both hashed, however long the key is")
    woken_by = models.DateTimeField(null=True, help_text="the arrival that made it due last")
    epoch = models.BigIntegerField(null=True, help_text="whose marker PROCESSING is")
    # Of a dead letter, as another framework's headers tell.
    origin_topic = models.CharField(max_length=249, blank=True, default="", db_default="")
    origin_partition = models.IntegerField(null=True)
    origin_offset = models.BigIntegerField(null=True)
    cause_class = models.CharField(max_length=200, blank=True, default="", db_default="")
    # Of a message in a schema registry's format.
    schema_id = models.IntegerField(null=True)
    schema_subject = models.CharField(max_length=255, blank=True, default="", db_default="")
    schema_version = models.IntegerField(null=True)
    copied_at = models.DateTimeField(null=True)
    copy_offset = models.BigIntegerField(null=True)

    first_failed_at = models.DateTimeField()
    last_failed_at = models.DateTimeField()
    expired_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    ended = models.CharField(max_length=12, blank=True, help_text="what a closed row ended in")

    class Meta:
        ordering = ["-last_failed_at", "id"]
        permissions = [
            ("view_payload", "Can see payloads, keys and headers"),
            ("reveal_payload", "Can reveal masked values of a message"),
            ("edit_payload", "Can edit the payload of a held message"),
            ("operate", "Can release, hold, delete, restore, pause and resume"),
            ("change_configuration", "Can set up providers, systems, queues and schedules"),
            ("manage_people", "Can add people and give them rights"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "topic_uuid", "partition", "offset"], name="one_error_per_position"
            ),
            known_states(ErrorState, "error_state_known"),
            models.CheckConstraint(
                condition=~models.Q(state=ErrorState.RETRY.value)
                | models.Q(not_before__isnull=False),
                name="retry_has_a_time",
            ),
        ]
        indexes = [
            models.Index(
                fields=["queue", "state", "partition", "arrival_batch", "arrival_index"],
                name="error_open",
                condition=models.Q(state__in=in_order(OPEN)),
            ),
            models.Index(
                fields=["not_before"],
                name="error_due",
                condition=models.Q(state__in=in_order(DUE)),
            ),
            models.Index(fields=["-last_failed_at", "id"], name="error_recent"),
            models.Index(fields=["queue", "-last_failed_at", "id"], name="error_by_queue_recent"),
            models.Index(fields=["code", "-last_failed_at", "id"], name="error_by_code_recent"),
            models.Index(
                fields=["interface", "-last_failed_at", "id"], name="error_by_interface_recent"
            ),
            models.Index(
                fields=["origin_topic", "-last_failed_at", "id"],
                name="error_by_origin_recent",
                condition=~models.Q(origin_topic=""),
            ),
            models.Index(
                fields=["cause_class", "-last_failed_at", "id"],
                name="error_by_class_recent",
                condition=~models.Q(cause_class=""),
            ),
            # What was sent back from an error queue, for those who count how often.
            models.Index(
                "queue",
                MD5(Coalesce("edited_payload", "payload", models.Value(b""))),
                MD5(Coalesce("key", models.Value(b""))),
                name="error_returned_content",
                condition=models.Q(ended=Ended.RETURNED.value),
            ),
            # The open ones by cause, with all that a group of them shows.
            models.Index(
                fields=["fingerprint", "queue", "interface", "code"],
                include=["state", "first_failed_at", "last_failed_at"],
                name="error_cause_open",
                condition=models.Q(state__in=in_order(OPEN)),
            ),
            models.Index(
                fields=["queue", "order_key", "arrival_batch", "arrival_index"],
                name="error_order_open",
                condition=models.Q(state__in=in_order(OPEN), order_key__isnull=False),
            ),
            models.Index(
                fields=["waits_kind", "waits_for"],
                name="error_waits",
                condition=models.Q(state=ErrorState.RETRY.value, waits_for__isnull=False),
            ),
            models.Index(
                fields=["queue", "partition"],
                name="error_parked",
                condition=models.Q(state__in=in_order(OPEN), parked_at__isnull=False),
            ),
            HashIndex(fields=["key"], name="error_by_key"),
            # A partner chooses message ids: hashed, their length cannot break an insert.
            HashIndex(fields=["message_id"], name="error_by_message"),
            models.Index(
                fields=["closed_at"],
                name="error_closed",
                condition=models.Q(state__in=in_order(CLOSED)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue.name}[{self.partition}]@{self.offset}: {self.code}"

    @property
    def current_payload(self) -> bytes | None:
        """The bytes that the next attempt will process: the edited ones if there are any."""
        value = self.payload if self.edited_payload is None else self.edited_payload
        return None if value is None else bytes(value)


class ErrorAttempt(models.Model):
    """One settled try of a failed message."""

    error = models.ForeignKey(MessageError, on_delete=models.CASCADE, related_name="tries")
    number = models.IntegerField()
    at = models.DateTimeField()
    ended = models.CharField(max_length=12)
    code = models.CharField(max_length=60, blank=True)
    text = models.TextField(blank=True)
    detail = models.TextField(blank=True)
    worker = models.CharField(max_length=200, blank=True)
    edited = models.BooleanField(default=False)

    class Meta:
        ordering = ["number", "id"]

    def __str__(self) -> str:
        return f"{self.error_id} #{self.number}: {self.ended}"


class ErrorChange(models.Model):
    """One decision of a person about a failed message: who, when, before, after, why.

    It stays when its failure is removed, without the payload; the queue and the message's id are
    written down then (`integration.store.decisions`).
    """

    error = models.ForeignKey(
        MessageError, on_delete=models.SET_NULL, null=True, related_name="changes"
    )
    queue_name = models.CharField(
        max_length=60, blank=True, db_default="", help_text="Set once the failure is gone."
    )
    message_id = models.TextField(
        blank=True, db_default="", help_text="Set once the failure is gone."
    )
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=20)
    from_state = models.CharField(max_length=10)
    to_state = models.CharField(max_length=10)
    reason = models.TextField(blank=True)
    payload_before = models.BinaryField(null=True)
    # A number and no foreign key: the decision stays when the operation is cleaned up.
    operation = models.UUIDField(null=True, help_text="the bulk operation it was part of")

    class Meta:
        ordering = ["at", "id"]
        indexes = [
            # The few that outlived their failure; the others are found by it.
            models.Index(
                fields=["message_id"],
                condition=models.Q(error=None),
                name="error_change_by_message",
            )
        ]

    def __str__(self) -> str:
        return f"{self.action} by {self.actor}"
