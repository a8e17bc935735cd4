"""The audit: one row for each change of the configuration, and one for each noted access."""

from typing import ClassVar, Final

from django.db import models

# The kind of a test message: it is no row of a model, and its subject is the message's id.
TEST_MESSAGE: Final = "testmessage"


class _Changes(models.Manager["ConfigurationChange"]):
    """The rows that tell of a change: what the configuration was is never asked of the others."""

    def get_queryset(self) -> "models.QuerySet[ConfigurationChange]":
        return super().get_queryset().filter(is_access=False)


class ConfigurationChange(models.Model):
    """A change that a person made in the configuration: who, when, before, after, why.

    With `is_access` it changed nothing: somebody logged in or out, was refused, or saw a payload.
    `objects` are the changes alone, `every` has both.

    It names its subject by kind and number, not by a foreign key: what was decided stays when
    the subject is gone. Secrets appear as "set" or "not set" only.
    """

    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    action = models.CharField(max_length=20, help_text="What was done, such as create.")
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
    is_access = models.BooleanField(
        default=False, db_default=False, help_text="Nothing was changed by it."
    )

    objects: ClassVar[models.Manager["ConfigurationChange"]] = _Changes()
    every: ClassVar[models.Manager["ConfigurationChange"]] = models.Manager()

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["kind", "subject", "-at"], name="configuration_by_subject"),
            models.Index(fields=["-at", "-id"], name="configuration_recent"),
            # Accesses outnumber changes by far, and each list must begin at once.
            models.Index(
                fields=["-at", "-id"],
                condition=models.Q(is_access=False),
                name="configuration_changes",
            ),
            models.Index(fields=["actor", "-at", "-id"], name="configuration_by_actor"),
            models.Index(fields=["action", "-at", "-id"], name="configuration_by_action"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.kind} {self.name} by {self.actor}"
