"""A delivery: that one recipient is to be told of one notice's beginning, lasting or end."""

from django.db import models

from crontasks.models.notice import Notice
from crontasks.models.notice_recipient import NoticeRecipient


class NoticeDelivery(models.Model):
    """Several of one recipient are sent as one message; `message` is the id that it keeps.

    Without a recipient it goes to SLUICE_NOTIFY_EMAILS. `next_at` is when it is due; None once it
    was given up. `taken_at` without `sent_at`: it is being sent, or was and may have arrived, as
    there was no answer or who sent it has died; None once every try is known to have failed.
    """

    class Event(models.TextChoices):
        """What is told."""

        BEGUN = "BEGUN", "It began"
        AGAIN = "AGAIN", "It still lasts"
        OVER = "OVER", "It is over"

    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="deliveries")
    recipient = models.ForeignKey(
        NoticeRecipient, on_delete=models.CASCADE, null=True, related_name="deliveries"
    )
    event = models.CharField(max_length=10, choices=Event.choices)
    created_at = models.DateTimeField()
    message = models.UUIDField(null=True)
    tries = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True)
    taken_at = models.DateTimeField(null=True)
    sent_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=300, blank=True)

    class Meta:
        ordering = ["id"]
        verbose_name = "delivery of a notice"
        indexes = [
            models.Index(
                fields=["recipient", "next_at"],
                name="notice_delivery_due",
                condition=models.Q(sent_at__isnull=True, next_at__isnull=False),
            ),
            models.Index(fields=["recipient", "sent_at"], name="notice_delivery_sent"),
        ]

    def __str__(self) -> str:
        return f"{self.event} of {self.notice_id} to {self.recipient_id or 'everybody'}"

    @classmethod
    def with_names(cls) -> "models.QuerySet[NoticeDelivery]":
        """Every delivery with its recipient, without what is secret of that."""
        every = cls._default_manager.select_related("recipient")
        return every.defer("recipient__url", "recipient__secret")
