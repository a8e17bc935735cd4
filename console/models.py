"""The tables of the console itself: whom it shows only a part of the world."""

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
