"""Schemas met in registries: what stood under an id, so that another one there is noticed."""

from typing import Final

from django.db import models
from django.db.models.functions import Now

from integration.models.provider import Provider

SUBJECT_CHARACTERS: Final = 255


class RegistrySchema(models.Model):
    """One schema of a provider's registry, as it was when a message first needed it.

    `digest` tells it from another one under the same id; forgotten when a person says so.
    """

    # The constraint's index begins with it.
    provider = models.ForeignKey(
        Provider, on_delete=models.CASCADE, related_name="schemas", db_index=False
    )
    registry = models.CharField(max_length=500, help_text="the address it was found at")
    schema_id = models.IntegerField()
    kind = models.CharField(max_length=10)
    subject = models.CharField(max_length=SUBJECT_CHARACTERS, blank=True)
    version = models.IntegerField(null=True)
    digest = models.CharField(max_length=32)
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["schema_id"]
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "registry", "schema_id"], name="one_schema_per_id"
            )
        ]

    def __str__(self) -> str:
        return f"{self.schema_id} {self.subject}".strip()
