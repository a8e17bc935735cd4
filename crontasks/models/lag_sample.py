"""How much waited and for how long, every five minutes: what rules are previewed on."""

from django.db import models

from integration.models import Queue


class LagSample(models.Model):
    """One queue of which something waited. The row without a queue says that it was looked."""

    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, null=True, related_name="lag_samples", db_index=False
    )
    at = models.DateTimeField()
    lag = models.BigIntegerField(default=0)
    oldest_seconds = models.FloatField(default=0)

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(
                fields=["queue", "at"], name="one_lag_sample_a_moment", nulls_distinct=False
            )
        ]
        indexes = [models.Index(fields=["at"], name="lag_sample_by_time")]

    def __str__(self) -> str:
        return f"{self.queue_id} at {self.at}"
