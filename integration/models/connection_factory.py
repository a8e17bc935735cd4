"""A connection factory: how an application that looks up its name sends to Kafka."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.models.provider import Provider


class ConnectionFactory(models.Model):
    """The settings of the connections that `connections.lookup(name)` gives."""

    class Goal(models.TextChoices):
        """What sending is tuned for. What Kafka has confirmed is as safe with each."""

        LATENCY = "latency", "Latency: each record is sent at once"
        BALANCED = "balanced", "Balanced: records wait 5 ms for others"
        THROUGHPUT = "throughput", "Throughput: large packets, records wait up to 50 ms"

    name = models.SlugField(max_length=60, unique=True, help_text="What applications look up.")
    description = models.CharField(max_length=200, blank=True)
    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="factories")
    goal = models.CharField(max_length=12, choices=Goal.choices, default=Goal.BALANCED)
    transactional = models.BooleanField(
        default=False,
        help_text="What a session sends is visible once it commits, all of it or nothing.",
    )
    least = models.PositiveSmallIntegerField(
        "connections kept", default=0, validators=[MaxValueValidator(64)]
    )
    most = models.PositiveSmallIntegerField(
        "most connections", default=8, validators=[MinValueValidator(1), MaxValueValidator(64)]
    )
    idle_seconds = models.FloatField(default=60, validators=[MinValueValidator(1)])
    wait_seconds = models.FloatField(default=5, validators=[MinValueValidator(0)])
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
