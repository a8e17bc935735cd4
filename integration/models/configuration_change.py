"""The audit of the configuration: one row for each change, whoever made it and wherever."""

from typing import Final

from django.db import models

# The kind of a test message: it is no row of a model, and its subject is the message's id.
TEST_MESSAGE: Final = "testmessage"


class ConfigurationChange(models.Model):
    """What a person changed in the configuration: who, when, before, after, why.

    It names its subject by kind and number, not by a foreign key: what was decided stays when
    the subject is gone. Secrets appear as "set" or "not set" only.
    """

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=20, help_text="create, change or delete")
    kind = models.CharField(max_length=40, help_text="The model's name, for example queue.")
    subject = models.CharField(max_length=40, help_text="The primary key, as text.")
    name = models.CharField(max_length=200, help_text="What it was called at that time.")
    system = models.ForeignKey(
        "integration.ExternalSystem",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
        help_text="The partner it belongs to; empty for what all share.",
    )
    before = models.JSONField(null=True, help_text="Only the fields that changed; null = was new.")
    after = models.JSONField(null=True, help_text="Only the fields that changed; null = is gone.")
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["kind", "subject", "-at"], name="configuration_by_subject"),
            models.Index(fields=["-at", "-id"], name="configuration_recent"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.kind} {self.name} by {self.actor}"
