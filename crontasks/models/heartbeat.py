"""A heartbeat: proof that a worker, beat or a relay was alive a moment ago."""

from django.db import models


class Heartbeat(models.Model):
    """One process that works in the background. Judged by the database's clock only."""

    class Kind(models.TextChoices):
        """The kind of process."""

        WORKER = "worker", "Celery worker"
        BEAT = "beat", "Celery beat"

    kind = models.CharField(max_length=10, choices=Kind.choices)
    node = models.CharField(max_length=200)
    pid = models.IntegerField()
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    leads = models.BooleanField(default=False)
    slots = models.IntegerField(default=0, help_text="Celery tasks it can run at the same time")
    queues = models.CharField(max_length=500, blank=True, help_text="Celery queues, by commas")
    clock_skew_seconds = models.FloatField(default=0)

    class Meta:
        ordering = ["kind", "node"]
        constraints = [models.UniqueConstraint(fields=["kind", "node"], name="one_heart_per_node")]

    def __str__(self) -> str:
        return f"{self.kind} {self.node}"
