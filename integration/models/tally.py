"""Counters of monitoring: they only grow, and every run adds to them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Tally(models.Model):
    """One counter, or one histogram, of one queue or endpoint.

    `counts` are those of a histogram's buckets, each without the ones below; of a counter there is
    one. `total` is the sum of the values. What a process counted in its last seconds is lost if it
    is killed: these are for monitoring, and no message depends on them.
    """

    class Kind(models.TextChoices):
        """What is counted; `subject` is the number of the queue, of calls that of the endpoint."""

        ENDED = "ended"
        LATENCY = "latency"
        CALL = "call"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    subject = models.BigIntegerField()
    ended = models.CharField(max_length=12, blank=True)
    counts = ArrayField(models.BigIntegerField())
    total = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["kind", "subject", "ended"], name="one_tally_a_subject")
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.subject}"
