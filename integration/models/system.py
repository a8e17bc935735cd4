"""Partners and what is exchanged with them: external systems, endpoints, enterprise services."""

from datetime import timedelta

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.endpoints import properties as endpoint_properties
from integration.models.fields import SECONDS, SecretField
from integration.models.forwards import circle_through, forwarding, target_of
from integration.models.ledgers import LedgerSharedError, check_ledger
from integration.models.provider import Provider
from integration.models.retrying import FACTOR, are_pauses
from integration.models.search_paths import check_search_paths
from integration.policy.retry import Backoff, RetryRule


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
        if endpoint_properties.forwards(self.endpoint_type):
            self._check_forward()
        if self.leads_on and not self._state.adding:
            self._check_circle()
        try:
            check_ledger(self)
        except LedgerSharedError as problem:
            raise ValidationError(f"{problem} ({problem.code})", code=problem.code) from problem

    def repeats_for(self, *, is_sequential: bool) -> bool:
        """Return whether what may have arrived is sent again for a queue of that kind.

        A sequential queue has a call for each message.
        """
        return self.idempotent and (is_sequential or not self.depends_on_company)

    @property
    def depends_on_company(self) -> bool:
        """Return whether it drops repeats only of messages that share their call with none."""
        kind, properties = self.endpoint_type, self.properties
        return endpoint_properties.depends_on_company(kind, properties)

    @property
    def leads_on(self) -> bool:
        """Return whether a queue can read again what is delivered to it."""
        return self.endpoint_type in endpoint_properties.leads_on()

    def _check_forward(self) -> None:
        """Raises ValidationError where it is no topic of a cluster that is set up."""
        provider, _ = target_of(self)
        known = Provider.objects.filter(name=provider).first()
        if known is None:
            raise ValidationError(f"There is no provider {provider}: choose one that is set up.")
        if known.is_jms:
            raise ValidationError(
                f"{provider} is a JMS broker, which has no topics of Kafka: choose a Kafka "
                "cluster, or an endpoint that sends to a JMS broker."
            )

    def _check_circle(self) -> None:
        """Raises ValidationError where it would feed a queue of its own."""
        queues = list(forwarding(self.queues.all()))
        for queue in queues:
            queue.endpoint = self
        others = forwarding(self.queues.model._default_manager.exclude(endpoint=self.pk))
        if sentence := circle_through(queues, others):
            raise ValidationError(sentence)


class MessageFormat(models.TextChoices):
    """The format that a service's messages must have. The last three are a schema registry's."""

    ANY = "", "any: what begins like a registry's message is one"
    TEXT = "text", "JSON or XML text"
    AVRO = "avro", "Avro"
    JSON_SCHEMA = "json_schema", "JSON Schema"
    PROTOBUF = "protobuf", "Protobuf"


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
    format = models.CharField(
        max_length=12,
        choices=MessageFormat.choices,
        blank=True,
        default=MessageFormat.ANY,
        db_default="",
    )

    # Its own retries; what is empty is its queue's. Without a backoff none of these counts.
    backoff = models.CharField(
        max_length=12,
        choices=[(b.value, b.value) for b in Backoff],
        blank=True,
        default="",
        db_default="",
        help_text="Empty = its handler's own pauses, else its queue's.",
    )
    max_retries = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(1_000)]
    )
    retry_delay_seconds = models.FloatField(default=30, db_default=30, validators=SECONDS)
    retry_factor = models.FloatField(default=2, db_default=2, validators=FACTOR)
    retry_delays_seconds = models.JSONField(
        default=list, db_default=[], blank=True, validators=[are_pauses]
    )
    retry_cap_seconds = models.FloatField(null=True, blank=True, validators=SECONDS)
    retry_jitter = models.FloatField(
        null=True, blank=True, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    retry_total_seconds = models.FloatField(null=True, blank=True, validators=SECONDS)

    class Meta:
        ordering = ["interface"]

    def __str__(self) -> str:
        return self.interface

    def clean(self) -> None:
        check_search_paths(self.external_id_path, self.search_paths)
        if self.backoff == Backoff.LIST and not self.retry_delays_seconds:
            raise ValidationError({"retry_delays_seconds": "List at least one pause."})

    def retry_rule(self) -> RetryRule | None:
        """Its own rule for retries; None where it has none."""
        if not self.backoff:
            return None
        return RetryRule(
            backoff=Backoff(self.backoff),
            first=timedelta(seconds=self.retry_delay_seconds),
            factor=self.retry_factor,
            delays=tuple(timedelta(seconds=float(s)) for s in self.retry_delays_seconds),
            max_retries=self.max_retries,
            cap=_seconds(self.retry_cap_seconds),
            jitter=self.retry_jitter,
            total=_seconds(self.retry_total_seconds),
        )


def _seconds(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
