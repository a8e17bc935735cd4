"""Tracking: what became of every message that was read, and the ids that were seen."""

from django.db import models
from django.db.models.functions import Now

from integration.models.queue import Queue


class MessageTrack(models.Model):
    """One ending of one try of one message; written by COPY in the batch's own transaction.

    In the database it is partitioned by the day of `at` (`store/track_days.py`), and no index
    keeps `id` unique: it tells rows of one moment apart. The rows of one COPY have one moment, and
    the first of them stands in the list of its queue for all. What to search by beside the
    message id is taken from the payload where the service or channel has paths for it; empty and
    null both mean "none".
    """

    queue = models.ForeignKey(
        Queue, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False
    )
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    arrival_batch = models.BigIntegerField()
    message_id = models.TextField()
    interface = models.TextField()
    ended = models.CharField(max_length=12)
    at = models.DateTimeField(db_default=Now())
    key = models.TextField(null=True, help_text="the Kafka record's key as text")  # noqa: DJ001 - a column added to many rows
    kafka_ms = models.BigIntegerField(
        null=True, help_text="when it was written to Kafka, milliseconds since 1970; 0 = not known"
    )
    external_id = models.TextField(null=True)  # noqa: DJ001 - null costs the index nothing
    search_a = models.TextField(null=True)  # noqa: DJ001 - as above
    search_b = models.TextField(null=True)  # noqa: DJ001 - as above
    caused_by = models.TextField(null=True, help_text="the id of the message it answers")  # noqa: DJ001 - as above
    payload = models.BinaryField(null=True, help_text="the record's value, compressed by zlib")
    schema_id = models.IntegerField(null=True, help_text="of a schema registry's format")
    trace_id = models.UUIDField(null=True, help_text="of W3C Trace Context")
    batch_rows = models.IntegerField(
        null=True,
        db_default=1,
        help_text="rows of its COPY, in the first of them; null in the others",
    )

    def __str__(self) -> str:
        return f"{self.queue_id}[{self.partition}]@{self.offset}: {self.ended}"


class SeenMessage(models.Model):
    """A message id that was applied, with the hash of its content; queues with dedupe only."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE)
    message_id = models.TextField()
    content_hash = models.BinaryField()
    topic_uuid = models.CharField(
        max_length=36, default="", db_default="", help_text="Empty: not remembered yet then."
    )
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "message_id"], name="one_seen_per_id")
        ]

    def __str__(self) -> str:
        return self.message_id
