"""A notice: something people were told, once, until it is over."""

from typing import Final

from django.db import models

from crontasks.models.notice_kinds import PROVIDER, TITLES, NoticeKind

ABOUT_PROVIDERS: Final = models.Q(subject__startswith=PROVIDER)


class Notice(models.Model):
    """One condition of one subject, open while it lasts.

    Told once when it began and once when it was over.
    """

    kind = models.CharField(max_length=20, choices=[(k.value, TITLES[k]) for k in NoticeKind])
    subject = models.CharField(max_length=200)
    text = models.TextField()
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-opened_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"],
                condition=models.Q(closed_at__isnull=True),
                name="one_open_notice",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind}: {self.subject}"
