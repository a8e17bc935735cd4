"""A notice: something people hear of once when it begins and once when it is over."""

from typing import Final

from django.conf import settings
from django.db import models

# A notice about a provider has this and its name as subject; queues' names have no blanks.
PROVIDER: Final = "provider "
ABOUT_PROVIDERS: Final = models.Q(subject__startswith=PROVIDER)
# One about a connection factory has this and its name.
CONNECTION: Final = "connection "
ABOUT_CONNECTIONS: Final = models.Q(subject__startswith=CONNECTION)
# Written by the cron tasks that ask Kafka.
ASKED_FOR: Final = ABOUT_PROVIDERS | ABOUT_CONNECTIONS


class NoticeKind(models.TextChoices):
    """A condition worth a mail, with the title of that."""

    BLOCKED = "BLOCKED", "Queue blocked"  # a person must act before a queue goes on
    BRAKED = "BRAKED", "Queue stopped at its failure threshold"  # a queue stopped reading by itself
    OUTAGE = "OUTAGE", "Queue waits for an outage to end"
    WAITING = "WAITING", "Queue waits for something switched off"  # or not installed
    HOLD_BURST = "HOLD_BURST", "Many messages held"  # in a short time
    EXPIRING = "EXPIRING", "Messages are about to expire unread"
    RESCUED = "RESCUED", "Messages were rescued"  # copied before they could expire unread
    RESCUE_STOPPED = "RESCUE_STOPPED", "A rescue stopped"  # and messages may expire unread
    GAP = "GAP", "Messages expired unread"
    NO_CONSUMER = "NO_CONSUMER", "Nothing consumes the queue"  # and messages wait
    NO_WORKER = "NO_WORKER", "No worker is alive"
    NO_BEAT = "NO_BEAT", "Beat is not alive"
    HUNG = "HUNG", "A call hangs"  # or is tried again after it did
    NO_SLOT = "NO_SLOT", "All worker slots are taken"  # and a queue waits for one
    NO_RELAY = "NO_RELAY", "Outgoing messages are not sent"
    NO_BROKER = "NO_BROKER", "The Celery broker does not answer"  # nothing new is started
    BRANCHES = "BRANCHES", "Transactions over several resources wait"  # for a person
    COPY = "COPY", "This database belongs to another environment"  # nothing may act


class Notice(models.Model):
    """One condition of one subject, open while it lasts. `told_at`: when people heard of it."""

    kind = models.CharField(max_length=20, choices=NoticeKind.choices)
    subject = models.CharField(max_length=200)
    text = models.TextField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=models.Q(closed_at__isnull=True),
                name="one_open_notice",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"

    @property
    def recipients(self) -> tuple[str, ...]:
        """The people who get notices as the installation is set now; empty = only the log tells."""
        return tuple(settings.SLUICE_NOTIFY_EMAILS)
