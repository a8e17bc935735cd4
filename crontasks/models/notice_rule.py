"""A rule of notices: from when on people are told, who, how often, and when not."""

from typing import Any, Final

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from crontasks.models.notice import NoticeKind
from crontasks.models.notice_kinds import FACTS
from crontasks.models.notice_recipient import NoticeRecipient
from crontasks.schedule.quiet import quiet_hours
from integration.models import ExternalSystem, Queue

LEAST_REPEAT_SECONDS: Final = 300
MOST_SECONDS: Final = 31_536_000


class NoticeRule(models.Model):
    """What a rule leaves empty is as a wider rule says, and in the end the kind's default.

    A rule is about one kind or (`kind` empty) about all of them, of one queue, of the queues of a
    system, or of everything. Switched off, it says that nobody is told there.
    """

    name = models.SlugField(max_length=60, unique=True)
    description = models.CharField(max_length=200, blank=True)
    enabled = models.BooleanField(default=True)
    kind = models.CharField(max_length=20, choices=NoticeKind.choices, blank=True)
    system = models.ForeignKey(
        ExternalSystem, on_delete=models.CASCADE, null=True, blank=True, related_name="notice_rules"
    )
    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, null=True, blank=True, related_name="notice_rules"
    )
    code = models.CharField(max_length=60, blank=True)
    at_least = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(1_000_000_000)]
    )
    longer_than_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MOST_SECONDS)]
    )
    window_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(60), MaxValueValidator(86_400)]
    )
    after_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(86_400)]
    )
    recipients = models.JSONField(default=list, blank=True)
    repeat_seconds = models.PositiveIntegerField(
        null=True, blank=True, validators=[MaxValueValidator(MOST_SECONDS)]
    )
    quiet_hours = models.CharField(max_length=200, blank=True)
    time_zone = models.CharField(max_length=60, default="UTC")
    quiet_for_urgent = models.BooleanField(default=False)

    class Meta:
        ordering = ["name"]
        verbose_name = "notice rule"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "system", "queue", "code"],
                name="one_notice_rule_per_scope",
                nulls_distinct=False,
                violation_error_message="There is a rule for this kind and scope already.",
            ),
            models.CheckConstraint(
                condition=models.Q(system__isnull=True) | models.Q(queue__isnull=True),
                name="notice_rule_system_or_queue",
                violation_error_message="Choose an external system or a queue, not both.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Raises ValidationError."""
        mistakes: dict[str, str] = {**self._thresholds(), **self._times()}
        if self.code and (self.kind != NoticeKind.FAILURES or self.at_least is None):
            mistakes["code"] = "Cause needs the kind FAILURES and At least."
        # Called for a kind that there is not, too: what is wrong with that is told already.
        if self.kind in NoticeKind.values and not FACTS[NoticeKind(self.kind)].is_of_queue:
            for name in ("system", "queue"):
                if getattr(self, name) is not None:
                    mistakes[name] = "This kind is about the whole installation."
        if unknown := self._unknown_recipients():
            mistakes["recipients"] = unknown
        if mistakes:
            raise ValidationError(mistakes)

    def _thresholds(self) -> dict[str, str]:
        """What this kind has no use for, by field."""
        facts = FACTS[NoticeKind(self.kind)] if self.kind in NoticeKind.values else None
        takes = {
            "at_least": facts is not None and bool(facts.counts),
            "longer_than_seconds": facts is not None and bool(facts.measures),
            "window_seconds": facts is not None and facts.window_seconds is not None,
        }
        what = f"{self.kind} has no such threshold: leave it empty."
        if not self.kind:
            what = "Rules for every kind have no threshold: choose a kind, or leave it empty."
        return {
            name: what
            for name, does in takes.items()
            if not does and getattr(self, name) is not None
        }

    def _times(self) -> dict[str, str]:
        mistakes = {}
        if self.repeat_seconds and self.repeat_seconds < LEAST_REPEAT_SECONDS:
            mistakes["repeat_seconds"] = "Enter at least 5 min, or 0 for never."
        try:
            quiet_hours(self.quiet_hours or "none", self.time_zone)
        except ValueError as problem:
            mistakes["quiet_hours"] = str(problem)
        return mistakes

    def _unknown_recipients(self) -> str:
        given: Any = self.recipients
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            return "Write a list of names of recipients."
        known = NoticeRecipient.objects.filter(name__in=given).values_list("name", flat=True)
        unknown = sorted(set(given) - set(known))
        return f"There is no recipient called “{unknown[0][:60]}”." if unknown else ""
