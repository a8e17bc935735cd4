"""The HTTP door: who may post for a partner, and what was answered to whom."""

from django.db import models

from integration.models.system import ExternalSystem


class ApiToken(models.Model):
    """A partner's key to the HTTP door. Only its hash is stored; it is shown once, when made.

    `prefix` is its first characters: enough to find it and to tell tokens apart on a page.
    """

    system = models.ForeignKey(ExternalSystem, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    token_hash = models.CharField(max_length=64, help_text="SHA-256 of the token, hexadecimal")
    may_post = models.BooleanField(default=True, help_text="put messages into queues")
    may_call = models.BooleanField(default=False, help_text="run a service at once")
    may_read = models.BooleanField(default=True, help_text="ask what became of a message")
    services = models.JSONField(
        default=list, blank=True, help_text="interfaces it is limited to; empty = all"
    )
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["system__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["system", "name"], name="one_token_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.system}: {self.name}"


class Receipt(models.Model):
    """What was answered to a post that carried the sender's own id: its repetition gets the same.

    Written in the transaction that accepts the message, kept as long as the topic's retention.
    """

    system = models.ForeignKey(ExternalSystem, on_delete=models.CASCADE, related_name="receipts")
    sender_id = models.TextField()
    interface = models.TextField()
    content_hash = models.BinaryField()
    status = models.IntegerField()
    answer = models.JSONField()
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["system", "sender_id"], name="one_receipt_per_id")
        ]
        indexes = [models.Index(fields=["received_at"], name="receipt_by_age")]

    def __str__(self) -> str:
        return self.sender_id
