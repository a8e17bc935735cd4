"""Partners and what is exchanged with them: external systems, endpoints, enterprise services."""

from django.core.exceptions import ValidationError
from django.db import models

from integration import endpoint_properties


class ExternalSystem(models.Model):
    """A partner. Switching it off stops its messages without spending their retries."""

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Endpoint(models.Model):
    """Where outbound messages of a partner are delivered, by a handler type."""

    class HandlerType(models.TextChoices):
        """How delivery happens."""

        HTTP = "http", "HTTP"
        FILE = "file", "File"
        DATABASE = "database", "Database"
        PYTHON = "python", "Python function"

    name = models.SlugField(max_length=60, unique=True)
    system = models.ForeignKey(ExternalSystem, on_delete=models.PROTECT, related_name="endpoints")
    handler_type = models.CharField(max_length=20, choices=HandlerType.choices)
    properties = models.JSONField(default=dict, blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        found = endpoint_properties.mistakes(self.handler_type, self.properties)
        if found:
            raise ValidationError({"properties": found})


class EnterpriseService(models.Model):
    """An inbound message type: the envelope's INTERFACE and what takes it.

    Without a structure the handler registered under `interface` takes the message; with one,
    the document is stored into the structure.
    """

    interface = models.CharField(max_length=100, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    structure = models.ForeignKey(
        "integration.ObjectStructure",
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="services",
        help_text="Store into this structure; empty = the registered handler takes it.",
    )

    class Meta:
        ordering = ["interface"]

    def __str__(self) -> str:
        return self.interface
