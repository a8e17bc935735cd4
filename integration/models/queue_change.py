"""Decisions of people about a queue: who, when, what it did and why."""

from django.db import models

from integration.models.queue import Queue


class QueueChange(models.Model):
    """One decision of a person about a queue or one of its partitions.

    Never changed later; it stays when its queue is removed.
    """

    queue = models.ForeignKey(Queue, on_delete=models.SET_NULL, null=True, related_name="changes")
    name = models.CharField(
        max_length=60, db_default="", help_text="What the queue was called at that time."
    )
    partition = models.IntegerField(null=True)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=30)
    reason = models.TextField(blank=True)
    effect = models.TextField(blank=True, help_text="What it changed, as a sentence.")

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return f"{self.name}: {self.action} by {self.actor}"
