"""The HTTP API: who may post for a partner, and what was answered to whom."""

from enum import Enum

from django.db import models

from integration.models.queue import Queue
from integration.models.system import ExternalSystem


class Doing(Enum):
    """The permissions of a token, and the words in which a refusal names them."""

    POST = ("may_post", "put messages into queues")
    CALL = ("may_call", "run services at once")
    READ = ("may_read", "ask what became of messages")
    PUBLISH = ("may_publish", "publish to channels")


class ApiToken(models.Model):
    """A partner's key to the HTTP API. Only its hash is stored; it is shown once, when made.

    `prefix` is its first characters: enough to find it and to tell tokens apart on a page.
    """

    system = models.ForeignKey(ExternalSystem, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    token_hash = models.CharField(
        max_length=64, editable=False, help_text="SHA-256 of the token, hexadecimal"
    )
    may_post = models.BooleanField(default=True, help_text="put messages into queues")
    may_call = models.BooleanField(default=False, help_text="run a service at once")
    may_read = models.BooleanField(default=True, help_text="ask what became of a message")
    may_publish = models.BooleanField(default=False, help_text="publish to channels")
    services = models.JSONField(
        default=list, blank=True, help_text="interfaces it is limited to; empty = all"
    )
    users = models.JSONField(
        default=list, db_default=[], blank=True, help_text="users it may speak for, by name"
    )
    created_at = models.DateTimeField(editable=False)
    created_by = models.CharField(max_length=150, editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["system__name", "name"]
        constraints = [
            models.UniqueConstraint(fields=["system", "name"], name="one_token_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.system}: {self.name}"


class Receipt(models.Model):
    """One accepted post: what was answered, and where its messages are found.

    Written in the transaction that accepts the messages. A post that carries the sender's own id,
    its idempotency key, is answered from here when it is repeated: such a receipt is kept by the
    keys' own days, others as long as the queue's retention (the history cleanup).
    """

    system = models.ForeignKey(ExternalSystem, on_delete=models.CASCADE, related_name="receipts")
    sender_id = models.TextField(null=True, help_text="the sender's own id of its post")  # noqa: DJ001 - several without one
    message_id = models.TextField(help_text="of several messages the part before their numbers")
    interface = models.TextField()
    content_hash = models.BinaryField()
    status = models.IntegerField()
    answer = models.JSONField()
    count = models.IntegerField(default=1)
    queue = models.ForeignKey(
        Queue, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, null=True
    )
    first_row = models.BigIntegerField(null=True, help_text="its outgoing rows lie between these")
    last_row = models.BigIntegerField(null=True)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["system", "sender_id"], name="one_receipt_per_id"),
            # No `unique=True`: that would add an index for prefixes, which nobody searches by.
            models.UniqueConstraint(fields=["message_id"], name="one_receipt_per_message"),
        ]
        indexes = [models.Index(fields=["received_at"], name="receipt_by_age")]

    def __str__(self) -> str:
        return self.message_id
