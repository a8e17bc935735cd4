"""An instance: one configured schedule of one cron task."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django_celery_beat.models import (
    CrontabSchedule,
    IntervalSchedule,
    PeriodicTask,
    PeriodicTasks,
)

from crontasks import parameters
from crontasks.definitions import registry
from crontasks.errors import BadParametersError, BadScheduleError, UnknownCronTaskError
from crontasks.schedule.crontab import parse
from crontasks.schedule.moments import Schedule, build
from crontasks.schedule.words import in_words
from crontasks.task_names import TICK
from integration.models import Queue
from integration.store.sessions import database_time

if TYPE_CHECKING:
    from django.contrib.auth.models import User

MOMENTS = ("crontab", "interval_seconds", "time_zone", "active")
NOBODY = "Choose the user whose rights it runs with."
NOT_OF_QUEUES = (
    "A run of a queue or of the relay acts for nobody: its handlers have the rights of the workers."
)
# Written by ticks and runs while a form is open; a save must never put them back in time.
WORKING = frozenset({"id", "periodic_task", "last_scheduled_at", "asked_at", "waits_since"})


class CronInstance(models.Model):
    """A cron task, its parameters and when it runs.

    Saving validates it and keeps the PeriodicTask that beat reads. `last_scheduled_at` is the
    last moment that was acted upon; it only moves by compare-and-set: a doubled tick is nothing.
    """

    class Overlap(models.TextChoices):
        """The rule for a run that is due while the one before is still at work."""

        SKIP = "skip", "Skip the run"
        ALLOW = "allow", "Run both"

    class Misfire(models.TextChoices):
        """The rule for moments that passed while nothing could run."""

        RUN_ONCE = "run_once", "Run once, late"
        SKIP = "skip", "Wait for the next scheduled time"

    # Their secrets are encrypted one by one; a rotation of the keys finds them by this.
    sealed_columns = ("parameters",)

    name = models.CharField(max_length=100, unique=True)
    task = models.CharField(max_length=100)
    parameters = models.JSONField(default=dict, blank=True)
    crontab = models.CharField(
        max_length=200, blank=True, help_text="minute hour day-of-month month day-of-week"
    )
    interval_seconds = models.PositiveIntegerField(null=True, blank=True)
    time_zone = models.CharField(max_length=60, default="UTC")
    active = models.BooleanField(default=True)
    run_as = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True
    )
    with_rights = models.BooleanField(
        default=False,
        db_default=False,
        help_text="it runs with the rights of this user, who is asked for them at each run",
    )
    overlap = models.CharField(max_length=10, choices=Overlap.choices, default=Overlap.SKIP)
    misfire = models.CharField(max_length=10, choices=Misfire.choices, default=Misfire.RUN_ONCE)
    timeout_seconds = models.PositiveIntegerField(
        default=600, validators=[MinValueValidator(1), MaxValueValidator(86_400)]
    )
    keep_runs = models.PositiveIntegerField(default=200, validators=[MaxValueValidator(100_000)])
    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, null=True, blank=True, related_name="instances"
    )

    periodic_task = models.OneToOneField(
        PeriodicTask, on_delete=models.SET_NULL, null=True, editable=False, related_name="instance"
    )
    last_scheduled_at = models.DateTimeField(null=True, editable=False)
    asked_at = models.DateTimeField(
        null=True, editable=False, help_text="a run was sent to the workers and none began yet"
    )
    waits_since = models.DateTimeField(
        null=True,
        editable=False,
        help_text="since when its queue waits for a start",
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "task"], name="one_instance_per_queue_task"),
            models.CheckConstraint(
                condition=models.Q(crontab="") ^ models.Q(interval_seconds__isnull=True),
                name="crontab_or_interval",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def save(self, **options: Any) -> None:
        """Raises ValidationError; nothing invalid is ever handed to beat."""
        self.crontab = " ".join(self.crontab.split())
        self.full_clean()
        self.parameters = parameters.sealed_of(
            registry.named(self.task).task.parameters, self.parameters
        )
        is_moved = self._state.adding or self._is_moved()
        if not self._state.adding:
            options["update_fields"] = [
                field.name for field in self._meta.concrete_fields if field.name not in WORKING
            ]
        super().save(**options)
        if is_moved:
            self.last_scheduled_at = self.schedule().latest(database_time())
        self._write_periodic_task(begins=is_moved)

    def schedule(self) -> Schedule:
        """Raises BadScheduleError for a row that was written past `save`."""
        return build(
            crontab=self.crontab,
            interval_seconds=self.interval_seconds,
            zone=self.time_zone,
            number=self.pk or 0,
        )

    @property
    def schedule_words(self) -> str:
        try:
            return in_words(self.schedule())
        except BadScheduleError as e:
            return e.sentence

    @property
    def actor(self) -> str:
        """The person whose name the changes of its runs carry."""
        return f"{self.run_as} (cron task)" if self.run_as else "cron task"

    @property
    def user_with_rights(self) -> "User | None":
        """The user with whose rights it runs; None where it runs with nobody's.

        None as well where the account is gone: then nothing is done.
        """
        return self.run_as if self.with_rights else None

    def clean(self) -> None:
        try:
            definition = registry.named(self.task)
        except UnknownCronTaskError as e:
            raise ValidationError({"task": str(e)}) from e
        if self.with_rights and (self.run_as is None or definition.task.asks_only):
            raise ValidationError({"with_rights": NOBODY if self.run_as is None else NOT_OF_QUEUES})
        try:
            self.schedule()
        except BadScheduleError as e:
            field = "crontab" if self.crontab.strip() else "interval_seconds"
            raise ValidationError({field: str(e)}) from e
        try:
            parameters.read(definition.task.parameters, self.parameters)
        except BadParametersError as e:
            raise ValidationError({"parameters": str(e)}) from e

    def validate_constraints(self, exclude: Collection[str] | None = None) -> None:
        """Ask the database for all but what `clean` has told of: a schedule of both kinds."""
        super().validate_constraints({*(exclude or ()), "interval_seconds"})

    def _is_moved(self) -> bool:
        """Return whether its moments have changed, so that counting begins now."""
        stored = type(self).objects.filter(pk=self.pk).values(*MOMENTS).first()
        return stored is None or any(stored[name] != getattr(self, name) for name in MOMENTS)

    def _write_periodic_task(self, *, begins: bool) -> None:
        """Keep it as this instance says, and tell beat, which reads nothing else, of the change.

        `begins`: the instance counts from now.
        """
        columns: dict[str, Any] = {"last_scheduled_at": self.last_scheduled_at} if begins else {}
        fields: dict[str, Any] = {
            "name": f"cron instance {self.pk}: {self.name}",
            "task": TICK,
            "args": f"[{self.pk}]",
            # A beat of the project's own takes what is enabled for its own to start.
            "enabled": self.active and not settings.SLUICE_IS_GUEST,
            "description": self.schedule_words,
            "interval": None,
            "crontab": None,
            **self._periodic_schedule(),
        }
        # Past its own `save`, which tells beat of a change before and after it, both times by four
        # statements.
        if self.periodic_task is None:
            [self.periodic_task] = PeriodicTask.objects.bulk_create([PeriodicTask(**fields)])
            columns["periodic_task"] = self.periodic_task
        else:
            if not self.active:
                fields["last_run_at"] = None
            for name, value in fields.items():
                setattr(self.periodic_task, name, value)
            self.periodic_task.date_changed = timezone.now()
            PeriodicTask.objects.bulk_update([self.periodic_task], [*fields, "date_changed"])
        if columns:
            type(self).objects.filter(pk=self.pk).update(**columns)
        _tell_beat()

    def _periodic_schedule(self) -> dict[str, Any]:
        if self.interval_seconds is not None:
            every = {"every": self.interval_seconds, "period": IntervalSchedule.SECONDS}
            return {"interval": _stored(IntervalSchedule, every)}
        minute, hour, day, month, weekday = parse(self.crontab).texts()
        timed = {
            "minute": minute,
            "hour": hour,
            "day_of_month": day,
            "month_of_year": month,
            "day_of_week": weekday,
            "timezone": self.time_zone,
        }
        return {"crontab": _stored(CrontabSchedule, timed)}

    def forget_periodic_task(self) -> None:
        """Take it away when this instance is deleted."""
        PeriodicTask.objects.filter(pk=self.periodic_task_id).delete()
        _tell_beat()


def _stored(kind: type[models.Model], fields: dict[str, Any]) -> models.Model:
    """Return a row with these fields: the first there is, since nothing keeps it from being two.

    A new one is stored past its own `save`, which would tell beat.
    """
    rows = kind._default_manager
    found: models.Model | None = rows.filter(**fields).order_by("pk").first()
    return found or rows.bulk_create([kind(**fields)])[0]


def _tell_beat() -> None:
    """Let it read its tasks anew; the first time there is nothing yet to tell it by."""
    if not PeriodicTasks.objects.update(last_update=timezone.now()):
        PeriodicTasks.update_changed()
