"""Forms of notices: how long one is to wait."""

from datetime import datetime, timedelta
from typing import Final

from django import forms
from django.utils import timezone

from console.forms.durations import EXAMPLE, DurationField

LONGEST_SECONDS: Final = 30 * 86_400


class SnoozeForm(forms.Form):
    """For how long nobody is told, and why."""

    length = DurationField(
        label="For how long", initial="4 h", least_seconds=60, help_text=f"{EXAMPLE} 30 d at most."
    )
    reason = forms.CharField(required=False, max_length=500, label="Why")

    def clean_length(self) -> float:
        seconds: float = self.cleaned_data["length"]
        if seconds > LONGEST_SECONDS:
            raise forms.ValidationError("Enter at most 30 d.")
        return seconds

    def until(self) -> datetime:
        """The end of the pause, of a good form."""
        return timezone.now() + timedelta(seconds=self.cleaned_data["length"])
