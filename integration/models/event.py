"""Events for other systems: who subscribes to which, and those that wait to be published.

Triggers of the database (migrations 0027 and 0030) write the rows of `PendingEvent`, in the
transaction of what happened, whichever way it was written: by a page, the engine, an operation or
a bulk job.
"""

import uuid

from django.core.exceptions import ValidationError
from django.db import models

from integration.models.channel import PublishChannel


class EventKind(models.TextChoices):
    """The kinds of events. Receivers know them by these names: one is never renamed."""

    HELD = "failure.held", "A failure is put on hold"
    EDITED = "failure.edited", "A failure is edited"
    RELEASED = "failure.released", "A failure is released"
    DELETED = "failure.deleted", "A failure is deleted"
    RESTORED = "failure.restored", "A deleted failure is restored"
    RESOLVED = "failure.resolved", "A failure is resolved"
    BLOCKED = "queue.blocked", "A queue is blocked"
    PAUSED = "queue.paused", "A queue is paused by a person"
    RESUMED = "queue.resumed", "A queue is resumed by a person"
    OPERATION = "operation.ended", "A bulk operation has ended"
    BULK_RUN = "bulk_run.ended", "A bulk run has ended"
    CONFIGURATION = "configuration.changed", "The configuration is changed"


class EventSubscription(models.Model):
    """The kinds of events that are published by a channel, of one external system or of all."""

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    channel = models.ForeignKey(
        PublishChannel, on_delete=models.PROTECT, related_name="event_subscriptions"
    )
    kinds = models.JSONField(default=list)
    system = models.ForeignKey(
        "integration.ExternalSystem",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="event_subscriptions",
    )

    class Meta:
        ordering = ["name"]
        verbose_name = "event subscription"

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        # A list, which anything may be looked for in: a file may have written one in a list.
        kinds, known = self.kinds, EventKind.values
        if not isinstance(kinds, list) or not kinds or not all(kind in known for kind in kinds):
            text = f"Name one kind or several of {', '.join(EventKind.values)}."
            raise ValidationError({"kinds": text})
        channel = PublishChannel.objects.filter(pk=self.channel_id).first()
        if channel is None:
            return
        if channel.is_xml or channel.subject_by or channel.structure_id or channel.key_path:
            text = (
                "Events are JSON of their own: take a channel without registry, object structure "
                "and key path."
            )
            raise ValidationError({"channel": text})


class PendingEvent(models.Model):
    """One event for one subscription, until it is published; `event_id` is of this pair.

    `key` is that of the message: of one key, events keep their order. `subject` names what it is
    about and holds neither payloads nor keys nor texts.
    """

    event_id = models.UUIDField(default=uuid.uuid4)
    subscription = models.ForeignKey(
        EventSubscription, on_delete=models.CASCADE, related_name="events", db_index=False
    )
    kind = models.CharField(max_length=40)
    at = models.DateTimeField()
    key = models.CharField(max_length=200)
    actor = models.CharField(max_length=150, blank=True, db_default="")
    subject = models.JSONField()

    class Meta:
        ordering = ["id"]
        indexes = [models.Index(fields=["subscription", "id"], name="event_waiting")]

    def __str__(self) -> str:
        return f"{self.kind} {self.event_id}"
