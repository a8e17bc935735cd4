"""Whose database this is."""

from django.db import models


class Deployment(models.Model):
    """One row: the name and environment this database belongs to (a copy must not act)."""

    name = models.CharField(max_length=100)
    environment = models.CharField(max_length=100)
    canary = models.TextField(help_text="proves that the encryption keys are the right ones")

    def __str__(self) -> str:
        return f"{self.name} ({self.environment})"
