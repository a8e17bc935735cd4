"""The state of a queue at a moment: what rates and little charts are drawn from."""

from django.db import models

from integration.models.queue import Queue


class QueueSample(models.Model):
    """The sums over a queue's partitions at one moment.

    A rate is the difference of two samples over their time: `position` grows with what was
    settled, `end` with what was written to the topic.
    """

    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, related_name="samples", db_index=False
    )
    at = models.DateTimeField()
    position = models.BigIntegerField(help_text="sum of the next offsets")
    end = models.BigIntegerField(help_text="sum of the high watermarks")
    held = models.IntegerField(default=0)
    retrying = models.IntegerField(default=0)

    class Meta:
        ordering = ["-at"]
        constraints = [models.UniqueConstraint(fields=["queue", "at"], name="one_sample_a_moment")]
        indexes = [models.Index(fields=["at"], name="queue_sample_by_time")]

    def __str__(self) -> str:
        return f"{self.queue_id} at {self.at}"
