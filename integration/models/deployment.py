"""The name and the environment that own this database."""

from django.db import models


class Deployment(models.Model):
    """One row: the name and environment this database belongs to (a copy must not act)."""

    name = models.CharField(max_length=100)
    environment = models.CharField(max_length=100)
    canary = models.TextField(help_text="proves that the encryption keys are the right ones")
    database_mark = models.CharField(
        max_length=100,
        blank=True,
        db_default="",
        editable=False,
        help_text="The server's identity, the database's number and the timeline: another one "
        "means that the database was restored, copied or failed over. Empty = not noted yet.",
    )

    def __str__(self) -> str:
        return f"{self.name} ({self.environment})"
