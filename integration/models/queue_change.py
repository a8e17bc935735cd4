"""What people decided about a queue: who, when, what it did and why."""

from django.db import models

from integration.models.queue import Queue


class QueueChange(models.Model):
    """One decision of a person about a queue or one of its partitions. Never changed later."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="changes")
    partition = models.IntegerField(null=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=30)
    reason = models.TextField(blank=True)
    effect = models.TextField(blank=True, help_text="What it changed, as a sentence.")

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.queue_id}: {self.action} by {self.actor}"
