"""What became of every message that was read, and the ids that were seen."""

from django.db import models
from django.db.models.functions import Now

from integration.models.queue import Queue


class MessageTrack(models.Model):
    """One ending of one message; written by COPY in the batch's own transaction."""

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

    def __str__(self) -> str:
        return f"{self.queue_id}[{self.partition}]@{self.offset}: {self.ended}"


class SeenMessage(models.Model):
    """A message id that was applied, with the hash of its content; queues with dedupe only."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE)
    message_id = models.TextField()
    content_hash = models.BinaryField()
    partition = models.IntegerField()
    offset = models.BigIntegerField()
    seen_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["queue", "message_id"], name="one_seen_per_id")
        ]

    def __str__(self) -> str:
        return self.message_id
