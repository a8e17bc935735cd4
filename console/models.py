"""The tables of the console itself: who knows a part of the world only, and personal tokens."""

from django.conf import settings
from django.db import models

from integration.models import ExternalSystem


class Limit(models.Model):
    """A person who may know of these external systems only; without a row, of everything."""

    person = models.OneToOneField(
        settings.AUTH_USER_MODEL,
        on_delete=models.CASCADE,
        primary_key=True,
        related_name="sluice_limit",
    )
    systems = models.ManyToManyField(ExternalSystem, blank=True, related_name="+")

    def __str__(self) -> str:
        return f"limit of {self.person_id}"


class PersonalToken(models.Model):
    """A person's key to the operator API. Only its hash is stored; it is shown once, when made.

    With it somebody may do what its person may, and of that only `rights`: the words of
    console.layout.access.Right. `prefix` is its first characters, by which it is found.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sluice_tokens"
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16, unique=True)
    token_hash = models.CharField(
        max_length=64, editable=False, help_text="SHA-256 of the token, hexadecimal"
    )
    rights = models.JSONField(default=list, help_text="what it is limited to")
    created_at = models.DateTimeField(editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["person", "name"], name="one_personal_token_per_name")
        ]

    def __str__(self) -> str:
        return self.name


class ActionReceipt(models.Model):
    """What was answered to something done through the operator API under an idempotency key.

    Written in the transaction of what was done, and kept for a week.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+", db_index=False
    )
    key = models.CharField(max_length=200)
    request_hash = models.BinaryField()
    status = models.SmallIntegerField()
    answer = models.JSONField(null=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["person", "key"], name="one_receipt_per_key")
        ]

    def __str__(self) -> str:
        return self.key
