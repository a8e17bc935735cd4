"""Partners and what is exchanged with them: external systems, endpoints, enterprise services."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.endpoints import properties as endpoint_properties
from integration.models.fields import SecretField
from integration.models.search_paths import check_search_paths


class ExternalSystem(models.Model):
    """A partner. Switching it off stops its messages without spending their retries."""

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    # The HTTP API. Without a token nobody gets in; these limit those who have one.
    requests_per_minute = models.PositiveIntegerField(
        null=True, blank=True, help_text="How many posts it may make; empty = as many as it likes."
    )
    max_body_bytes = models.PositiveIntegerField(
        default=10 * 2**20, help_text="The largest body it may post."
    )
    legacy_door = models.BooleanField(
        default=False, help_text="Also accept /meaweb addresses and the MAXAUTH header."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Endpoint(models.Model):
    """A place where outbound messages of a partner are delivered; `endpoint_type` says how.

    `properties` hold no secrets; `secrets` is a JSON object of names and texts, sealed as a whole.
    """

    name = models.SlugField(max_length=60, unique=True)
    system = models.ForeignKey(ExternalSystem, on_delete=models.PROTECT, related_name="endpoints")
    endpoint_type = models.CharField(max_length=20, choices=endpoint_properties.choices)
    properties = models.JSONField(default=dict, blank=True)
    secrets = SecretField(blank=True, help_text="Stored encrypted; never shown.")
    enabled = models.BooleanField(default=True)
    paused_until = models.DateTimeField(null=True, blank=True)
    idempotent = models.BooleanField(
        default=False,
        help_text="It drops repeats of a message id: what may have arrived is sent again.",
    )
    rate_per_second = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0.001)], help_text="Empty = no limit."
    )
    max_concurrent = models.PositiveIntegerField(
        default=8, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    open_after = models.PositiveIntegerField(
        default=5,
        validators=[MinValueValidator(1)],
        help_text="Failures in a row of different messages after which it counts as down.",
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        mistakes = endpoint_properties.mistakes(self.endpoint_type, self.properties)
        if mistakes:
            raise ValidationError({"properties": list(mistakes.values())})
        try:
            secrets = endpoint_properties.read_secrets(self.secrets)
        except ValueError as problem:
            raise ValidationError({"secrets": str(problem)}) from problem
        wrong = endpoint_properties.secret_mistakes(self.endpoint_type, self.properties, secrets)
        if wrong:
            raise ValidationError({"secrets": list(wrong.values())})


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
    external_id_path = models.CharField(max_length=250, blank=True)
    search_paths = models.JSONField(default=list, blank=True)
    keeps_payload = models.BooleanField(default=False, help_text="Tracking keeps the payload.")

    class Meta:
        ordering = ["interface"]

    def __str__(self) -> str:
        return self.interface

    def clean(self) -> None:
        check_search_paths(self.external_id_path, self.search_paths)
