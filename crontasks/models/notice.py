"""A notice: something people hear of once when it begins and once when it is over."""

from typing import Final

from django.conf import settings
from django.db import models

from integration.models import Queue

# A notice about a provider has this and its name as subject; queues' names have no blanks.
PROVIDER: Final = "provider "
ABOUT_PROVIDERS: Final = models.Q(subject__startswith=PROVIDER)
# One about a connection factory has this and its name.
CONNECTION: Final = "connection "
ABOUT_CONNECTIONS: Final = models.Q(subject__startswith=CONNECTION)
# Written by the cron tasks that ask Kafka, each with what it writes about.
ASKERS: Final = {"lag_monitor": ABOUT_PROVIDERS, "xa_recovery": ABOUT_CONNECTIONS}
ASKED_FOR: Final = ABOUT_PROVIDERS | ABOUT_CONNECTIONS


class NoticeKind(models.TextChoices):
    """A condition worth a mail, with the title of that."""

    BLOCKED = "BLOCKED", "Queue blocked"  # a person must act before a queue goes on
    BRAKED = "BRAKED", "Queue stopped at its failure threshold"  # a queue stopped reading by itself
    OUTAGE = "OUTAGE", "Queue waits for an outage to end"
    WAITING = "WAITING", "Queue waits for something switched off"  # or not installed
    HOLD_BURST = "HOLD_BURST", "Many messages held"  # in a short time
    FAILURES = "FAILURES", "Many messages failed"  # in a short time, whatever became of them
    LAG = "LAG", "Many messages wait"  # more than a rule permits
    OLDEST = "OLDEST", "A message has waited for long"
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
    CRON_FAILED = "CRON_FAILED", "A cron task failed"  # its last run, or several in a row
    CRON_LATE = "CRON_LATE", "A cron task is late"  # a moment passed and no run began
    BRANCHES = "BRANCHES", "Transactions over several resources wait"  # for a person
    COPY = "COPY", "This database belongs to another environment"  # nothing may act


class Notice(models.Model):
    """One condition of one subject, open while it lasts.

    `decided_at`: when it was decided who is to be told, of its beginning or, once it is closed, of
    its end. `told_at`: when the first of them heard of that; or when it was decided that nobody is
    told. `again_at`: when they are to be reminded, None = never. An acknowledged one reminds
    nobody; one that is snoozed tells nobody before that moment.
    """

    kind = models.CharField(max_length=20, choices=NoticeKind.choices)
    subject = models.CharField(max_length=200)
    queue = models.ForeignKey(Queue, on_delete=models.SET_NULL, null=True, related_name="notices")
    text = models.TextField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    decided_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)
    again_at = models.DateTimeField(null=True)
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, blank=True, default="", db_default="")
    note = models.CharField(max_length=500, blank=True, default="", db_default="")
    snoozed_until = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=models.Q(closed_at__isnull=True),
                name="one_open_notice",
            )
        ]
        indexes = [
            models.Index(
                fields=["opened_at"],
                name="notice_undecided",
                condition=models.Q(told_at__isnull=True, decided_at__isnull=True),
            ),
            models.Index(
                fields=["again_at"],
                name="notice_again",
                condition=models.Q(again_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"

    @property
    def recipients(self) -> tuple[str, ...]:
        """Those who are told, by name or address; empty = only the log tells.

        Where nothing is decided yet, the addresses that are told where no rule says otherwise.
        """
        named: list[str] = []
        for delivery in self.deliveries.all():
            to = delivery.recipient
            named += settings.SLUICE_NOTIFY_EMAILS if to is None else [to.name]
        if not named and self.decided_at is None:
            named = settings.SLUICE_NOTIFY_EMAILS
        return tuple(dict.fromkeys(named))
