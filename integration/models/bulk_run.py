"""Runs of bulk jobs: what was asked, what was planned, how far it came, what it did."""

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models

from integration.models.fields import known_states
from integration.policy.states import BulkState


class BulkRun(models.Model):
    """One run of a job of `spark_jobs`.

    The plan is stored before anything is read: a rerun reads the same. `applied` and `counts`
    are written by the job itself, in the commit that holds its rows. Whoever runs it carries
    `epoch`, so that a driver that was thought dead writes nothing any more.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    job = models.CharField(max_length=20)
    job_request = models.JSONField(
        default=dict, help_text="what a person said; asked again by a clone"
    )
    parameters = models.JSONField(default=dict, help_text="what the job is told")
    plan = models.JSONField(default=dict)
    state = models.CharField(
        max_length=10, choices=[(s.value, s.label) for s in BulkState], default=BulkState.ASKED
    )
    progress = models.JSONField(default=dict, help_text="stage, done, total, rows")
    applied = models.BooleanField(default=False)
    counts = models.JSONField(default=dict, help_text="read, sent, rejected, skipped")
    facts = models.JSONField(default=dict, help_text="what the job tells of itself")
    log = models.TextField(
        blank=True, default="", help_text="the last lines the job said, each with its time"
    )
    problem = models.JSONField(null=True, help_text="[code, text, next step] of a failed run")
    actor = models.CharField(max_length=150)
    reason = models.TextField(blank=True)
    queues = ArrayField(
        models.BigIntegerField(),
        default=list,
        help_text="The queues it concerns; who may not know of one of them sees none of it.",
    )
    sentinel = models.CharField(
        max_length=500,
        blank=True,
        default="",
        help_text="A file that the driver must be able to read, with this run's id in it.",
    )
    asked_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)

    sent_at = models.DateTimeField(null=True, help_text="when it was last sent to the Spark driver")
    owner = models.CharField(max_length=200, blank=True)
    epoch = models.BigIntegerField(default=0)
    # Before a run is driven this keeps it for the process that asked for it.
    lease_until = models.DateTimeField(null=True)
    deaths = models.PositiveIntegerField(
        default=0,
        db_default=0,
        help_text="drivers that died under it since a person last asked for it",
    )
    instance = models.BigIntegerField(null=True, help_text="the cron instance that asked for it")

    class Meta:
        ordering = ["-asked_at"]
        constraints = [known_states(BulkState, "bulk_run_state_known")]
        indexes = [
            models.Index(fields=["-asked_at"], name="bulk_run_recent"),
            # The dispatcher looks twice a second for what is to be sent.
            models.Index(
                fields=["asked_at"],
                condition=models.Q(state__in=["ASKED", "RUNNING"]),
                name="bulk_run_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.job} {self.id}"
