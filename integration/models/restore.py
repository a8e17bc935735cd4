"""A database that went back in time: that it was noticed, and what people decide about it."""

from django.db import models
from django.db.models.functions import Now


class Restore(models.Model):
    """One return of the database to an earlier state. Nothing it concerns acts until it is closed.

    Before `examined_at` nothing at all acts; afterwards only what has an open finding is held.
    """

    class NoticedBy(models.TextChoices):
        """The sign that the database is not as it was left."""

        DATABASE = "database", "The data is in another database than before"
        TIMELINE = "timeline", "The server went on from an earlier state"
        WATERMARK = "watermark", "Kafka has a batch that this database never sent"
        PERSON = "person", "A person said so"

    noticed_at = models.DateTimeField(db_default=Now())
    noticed_by = models.CharField(max_length=10, choices=NoticedBy.choices)
    text = models.TextField()
    examined_at = models.DateTimeField(null=True)
    remarks = models.JSONField(default=list, db_default=[])
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=150, blank=True, db_default="")

    class Meta:
        ordering = ["-id"]
        constraints = [
            # Several processes notice the same thing at once.
            models.UniqueConstraint(
                models.Value(1),
                name="one_open_restore",
                condition=models.Q(closed_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.noticed_at:%Y-%m-%d %H:%M}: {self.noticed_by}"


class RestoreFinding(models.Model):
    """One thing that a person decides after a restore; what it concerns is held until then."""

    class Kind(models.TextChoices):
        """The kind of finding."""

        POSITION = "position", "Messages that were read already would be read again"
        SENT = "sent", "Messages that wait to be sent may be in Kafka already"
        DELIVERY = "delivery", "Messages that wait to be delivered may be delivered already"

    restore = models.ForeignKey(Restore, on_delete=models.CASCADE, related_name="findings")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    queue = models.IntegerField(null=True, help_text="The queue it holds.")
    partition = models.IntegerField(null=True)
    provider = models.IntegerField(null=True, help_text="The relay it holds.")
    shard = models.SmallIntegerField(null=True)
    facts = models.JSONField(default=dict)
    decision = models.CharField(max_length=20, blank=True)
    effect = models.TextField(blank=True)
    decided_at = models.DateTimeField(null=True)
    actor = models.CharField(max_length=150, blank=True)
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"
