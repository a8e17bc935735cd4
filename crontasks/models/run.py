"""A run: one execution of an instance that did something."""

from django.db import models

from crontasks.models.instance import CronInstance
from crontasks.outcome import RunState


class CronRun(models.Model):
    """One run and what it did. Ticks that did nothing leave no row.

    `ending` is the engine's word for a consumer's run (DRAINED, YIELDED, …); turns that only
    gave way to another queue are shown as one run.
    """

    instance = models.ForeignKey(CronInstance, on_delete=models.CASCADE, related_name="runs")
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    duration_seconds = models.FloatField(null=True)
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in RunState])
    ending = models.CharField(max_length=20, blank=True)
    counts = models.JSONField(default=dict)
    text = models.TextField(blank=True)
    log_excerpt = models.TextField(blank=True)
    node = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]
        indexes = [models.Index(fields=["instance", "-started_at"], name="run_by_instance")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=[s.value for s in RunState]), name="run_state_known"
            )
        ]

    def __str__(self) -> str:
        return f"{self.instance_id} at {self.started_at:%Y-%m-%d %H:%M:%S}: {self.state}"
