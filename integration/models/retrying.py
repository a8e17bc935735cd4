"""Settings by which the engine tries a failed message again, as columns."""

from datetime import timedelta

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.policy.retry import Backoff, RetryPolicy


class Retrying(models.Model):
    """How often, and after which pauses. Seconds, all of them."""

    max_retries = models.PositiveIntegerField(
        default=3, validators=[MaxValueValidator(1_000)], help_text="Tries after the first."
    )
    unlimited_retries = models.BooleanField(
        default=False, help_text="Never give a message up. It may be tried for ever."
    )
    backoff = models.CharField(
        max_length=12, choices=[(b.value, b.value) for b in Backoff], default=Backoff.CONSTANT.value
    )
    retry_delay_seconds = models.FloatField(default=30, validators=[MinValueValidator(0)])
    retry_factor = models.FloatField(default=2, validators=[MinValueValidator(1)])
    retry_delays_seconds = models.JSONField(default=list, blank=True)
    retry_cap_seconds = models.FloatField(default=3_600, validators=[MinValueValidator(0)])
    retry_jitter = models.FloatField(
        default=0, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    retry_total_seconds = models.FloatField(null=True, blank=True)

    class Meta:
        abstract = True

    def retry_policy(self) -> RetryPolicy:
        total = self.retry_total_seconds
        return RetryPolicy(
            max_retries=None if self.unlimited_retries else self.max_retries,
            backoff=Backoff(self.backoff),
            first=timedelta(seconds=self.retry_delay_seconds),
            factor=self.retry_factor,
            delays=tuple(timedelta(seconds=float(s)) for s in self.retry_delays_seconds),
            cap=timedelta(seconds=self.retry_cap_seconds),
            jitter=self.retry_jitter,
            total=None if total is None else timedelta(seconds=total),
        )
