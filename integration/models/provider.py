"""A provider: one Kafka cluster or JMS broker, and how to reach it."""

from urllib.parse import urlsplit

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.models.fields import SecretField
from integration.policy import client_properties
from integration.policy.relay_shares import MOST_SHARDS


class Provider(models.Model):
    """A Kafka cluster or a JMS broker, and how to reach it; several may live side by side."""

    class Kind(models.TextChoices):
        """What speaks there."""

        KAFKA = "kafka", "Kafka cluster"
        JMS = "jms", "JMS broker, over AMQP 1.0"

    class Security(models.TextChoices):
        """The wire's protection, in Kafka's own words."""

        PLAINTEXT = "PLAINTEXT"
        SSL = "SSL"
        SASL_PLAINTEXT = "SASL_PLAINTEXT"
        SASL_SSL = "SASL_SSL"

    class Mechanism(models.TextChoices):
        """The way in which the client proves who it is."""

        PLAIN = "PLAIN"
        SCRAM_SHA_256 = "SCRAM-SHA-256"
        SCRAM_SHA_512 = "SCRAM-SHA-512"
        OAUTHBEARER = "OAUTHBEARER"
        GSSAPI = "GSSAPI"

    name = models.SlugField(max_length=60, unique=True, help_text="Part of message ids.")
    kind = models.CharField(
        max_length=10, choices=Kind.choices, default=Kind.KAFKA, db_default=Kind.KAFKA.value
    )
    bootstrap_servers = models.CharField(
        max_length=1_000, help_text="host:port, several separated by commas"
    )
    security_protocol = models.CharField(
        max_length=20, choices=Security.choices, default=Security.PLAINTEXT
    )
    sasl_mechanism = models.CharField(max_length=20, choices=Mechanism.choices, blank=True)
    username = models.CharField(max_length=200, blank=True)
    password = SecretField(blank=True, help_text="Stored encrypted; never shown.")
    ca_certificate = models.TextField(blank=True, help_text="PEM; empty = the system's own list")
    client_certificate = models.TextField(blank=True, help_text="PEM")
    client_key = SecretField(blank=True, help_text="PEM; stored encrypted, never shown")
    properties = models.JSONField(
        default=dict, blank=True, help_text="Further client properties from the allowed list."
    )
    shards = models.PositiveSmallIntegerField(
        "shards of the relay",
        default=1,
        db_default=1,
        validators=[MinValueValidator(1), MaxValueValidator(MOST_SHARDS)],
        help_text="How many relays send its outgoing messages side by side, divided by topic.",
    )
    # A schema registry beside the cluster, and how to reach it; its login is its own.
    registry_url = models.CharField(
        max_length=500, blank=True, default="", db_default="", help_text="Empty = none."
    )
    registry_username = models.CharField(max_length=200, blank=True, default="", db_default="")
    registry_password = SecretField(
        blank=True, default="", db_default="", help_text="Stored encrypted; never shown."
    )
    registry_ca_certificate = models.TextField(
        blank=True, default="", db_default="", help_text="PEM; empty = the system's own list"
    )
    registry_client_certificate = models.TextField(
        blank=True, default="", db_default="", help_text="PEM"
    )
    registry_client_key = SecretField(
        blank=True,
        default="",
        db_default="",
        help_text="PEM; stored encrypted, never shown.",
    )
    # Written by the watch of idle queues, as long as its client hears from the cluster.
    idle_watched_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def is_jms(self) -> bool:
        """Return whether it is a JMS broker: it has addresses instead of topics."""
        return self.kind == self.Kind.JMS

    def clean(self) -> None:
        self._check_kind()
        if not isinstance(self.properties, dict):
            raise ValidationError({"properties": "Write a JSON object: names with their values."})
        mistakes = client_properties.mistakes(self.properties)
        if mistakes:
            raise ValidationError({"properties": mistakes})
        self._check_login()
        if self.is_jms:
            return
        if self.security_protocol.startswith("SASL") and not self.sasl_mechanism:
            raise ValidationError(
                {"sasl_mechanism": f"{self.security_protocol} needs a SASL mechanism."}
            )
        is_oauth = self.sasl_mechanism == self.Mechanism.OAUTHBEARER
        if self.security_protocol.startswith("SASL") and is_oauth:
            self._check_issuer()

        self._check_registry()

    def _check_kind(self) -> None:
        """Raises ValidationError for what a JMS broker does not have, or once queues depend on it.

        A broker is logged into with user and password alone.
        """
        stored = Provider.objects.filter(pk=self.pk).first() if not self._state.adding else None
        if stored is not None and stored.kind != self.kind and stored.queues.exists():
            text = "Queues refer to this provider as what it is. Make a new provider instead."
            raise ValidationError({"kind": text})
        if not self.is_jms:
            return
        is_plain = self.sasl_mechanism in {"", self.Mechanism.PLAIN}
        unknown: dict[str, object] = {
            "properties": self.properties,
            "registry_url": self.registry_url,
            "sasl_mechanism": not is_plain,
        }
        text = "A JMS broker has none of this: leave it out."
        mistakes = {field: text for field, is_there in unknown.items() if is_there}
        if mistakes:
            raise ValidationError(mistakes)
        if self.security_protocol.startswith("SASL") and not self.username:
            raise ValidationError({"username": "Write the user that logs in."})

    def _check_login(self) -> None:
        """Raises ValidationError for a user that the protocol would not send, and nobody told."""
        plain, tls = self.Security.PLAINTEXT, self.Security.SSL
        others: dict[str, str] = {plain: "SASL_PLAINTEXT or SASL_SSL", tls: "SASL_SSL"}
        other = others.get(self.security_protocol)
        if self.username and other is not None:
            text = (
                f"A user is not sent with {self.security_protocol}: "
                f"choose {other}, or leave the user out."
            )
            raise ValidationError({"username": text})

    def _check_registry(self) -> None:
        """Raises ValidationError for an address that cannot be asked, or that holds a login."""
        if not self.registry_url:
            return
        try:
            parts = urlsplit(self.registry_url)
            is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
            has_login = "@" in parts.netloc
        except ValueError:
            is_usable = has_login = False
        if not is_usable:
            said = "Write an address such as https://registry.example:8081."
            raise ValidationError({"registry_url": said})
        if has_login:
            said = "Leave the login out of the address: it has fields of its own."
            raise ValidationError({"registry_url": said})

    def _check_issuer(self) -> None:
        name = "sasl.oauthbearer.token.endpoint.url"
        if name not in self.properties:
            said = f"OAUTHBEARER needs {name}: the address where tokens are issued."
            raise ValidationError({"properties": said})
