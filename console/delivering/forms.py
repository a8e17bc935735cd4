"""The form that pauses an endpoint."""

from datetime import datetime, timedelta

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone

from console.forms.durations import EXAMPLE, DurationField
from integration.actions.queues import LONGEST_PAUSE


class PauseForm(forms.Form):
    """For how long nothing is sent, and why."""

    lasts = DurationField(
        least_seconds=10,
        label="How long",
        initial="30 min",
        help_text=f"{EXAMPLE} Afterwards it continues by itself.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    reason = forms.CharField(
        max_length=200,
        label="Why",
        help_text="Kept in the endpoint's history.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )

    def clean_lasts(self) -> float | None:
        seconds: float | None = self.cleaned_data["lasts"]
        if seconds is not None and seconds > LONGEST_PAUSE.total_seconds():
            raise ValidationError("At most 30 days; switch it off to stop it for longer.")
        return seconds

    def until(self) -> datetime:
        """The end of the pause; only of a valid form."""
        return timezone.now() + timedelta(seconds=self.cleaned_data["lasts"])
