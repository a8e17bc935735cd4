"""Settings by which the engine tries a failed message again, as columns."""

from datetime import timedelta
from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from integration.durations import LONGEST_SECONDS
from integration.models.fields import SECONDS
from integration.policy.retry import Backoff, RetryPolicy

# Twice this, and ten seconds, is a time limit of PostgreSQL: milliseconds in 31 bits, 12 days.
ONE_CALL: Final = (MinValueValidator(1), MaxValueValidator(604_800))
FACTOR: Final = (MinValueValidator(1), MaxValueValidator(1_000))


def are_pauses(pauses: object) -> None:
    """Raise ValidationError for anything but a list of pauses, in seconds."""
    if not isinstance(pauses, list) or not all(map(_is_pause, pauses)):
        raise ValidationError("List the pauses in seconds, of at most ten years each.")


def _is_pause(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value <= LONGEST_SECONDS  # type: ignore[operator] # a number


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
    retry_delay_seconds = models.FloatField(default=30, validators=SECONDS)
    retry_factor = models.FloatField(default=2, validators=FACTOR)
    retry_delays_seconds = models.JSONField(default=list, blank=True, validators=[are_pauses])
    retry_cap_seconds = models.FloatField(default=3_600, validators=SECONDS)
    retry_jitter = models.FloatField(
        default=0, validators=[MinValueValidator(0), MaxValueValidator(1)]
    )
    retry_total_seconds = models.FloatField(null=True, blank=True, validators=SECONDS)

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
