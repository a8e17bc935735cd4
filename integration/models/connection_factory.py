"""A connection factory: how an application that looks up its name sends to Kafka."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.models.fields import SECONDS
from integration.models.provider import Provider


class ConnectionFactory(models.Model):
    """The settings of the connections that `connections.lookup(name)` gives."""

    class Goal(models.TextChoices):
        """What sending is tuned for. What Kafka has confirmed is as safe with each."""

        LATENCY = "latency", "Latency: each record is sent at once"
        BALANCED = "balanced", "Balanced: records wait 5 ms for others"
        THROUGHPUT = "throughput", "Throughput: large packets, records wait up to 50 ms"

    class XaLog(models.TextChoices):
        """Where it is written which branches of transactions over several resources there are."""

        OFF = "off", "None: they take no part"
        TOPIC = "topic", "In a compacted topic of the provider"
        DATABASE = "database", "In Sluice's database"

    name = models.SlugField(max_length=60, unique=True, help_text="What applications look up.")
    description = models.CharField(max_length=200, blank=True)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="factories")
    goal = models.CharField(max_length=12, choices=Goal.choices, default=Goal.BALANCED)
    transactional = models.BooleanField(
        default=False,
        help_text="What a session sends is visible once it commits, all of it or nothing.",
    )
    xa = models.CharField(
        "log of transactions",
        max_length=12,
        choices=XaLog.choices,
        default=XaLog.OFF,
        db_default=XaLog.OFF,
    )
    xa_side_topic = models.CharField(max_length=249, blank=True, default="", db_default="")
    xa_log_topic = models.CharField(max_length=249, blank=True, default="", db_default="")
    # The log's topic as it was when branches were written to it first: see integration.xa.seen.
    xa_log_seen = models.CharField(max_length=300, default="", db_default="", editable=False)
    xa_expires_seconds = models.FloatField(
        default=300, db_default=300.0, validators=[MinValueValidator(10), MaxValueValidator(86_400)]
    )
    least = models.PositiveSmallIntegerField(
        "connections kept", default=0, validators=[MaxValueValidator(64)]
    )
    most = models.PositiveSmallIntegerField(
        "most connections", default=8, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    idle_seconds = models.FloatField(default=60, validators=[MinValueValidator(1), *SECONDS])
    wait_seconds = models.FloatField(default=5, validators=SECONDS)
    changed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        if self.least > self.most:
            raise ValidationError({"least": "Fewer are kept than there may be at most."})
        if hasattr(self, "provider") and self.provider.is_jms:
            text = "Connections are to Kafka. To send to a JMS broker, make an endpoint there."
            raise ValidationError({"provider": text})
        if self.xa != self.XaLog.OFF and not self.xa_side_topic:
            raise ValidationError({"xa_side_topic": "Messages wait there until it is decided."})
        if self.xa == self.XaLog.TOPIC and not self.xa_log_topic:
            raise ValidationError({"xa_log_topic": "The log is to be in a topic: name it."})
        if self.xa == self.XaLog.TOPIC and self.xa_log_topic == self.xa_side_topic:
            raise ValidationError({"xa_log_topic": "Two different topics are needed."})
