"""What people write to stop a queue for a while."""

from datetime import datetime

from django import forms

from console.delivering import forms as delivering
from console.forms.durations import EXAMPLE, DurationField


class PauseForm(delivering.PauseForm):
    """Why nothing is read, and for how long; without a time it stays so until a person resumes."""

    lasts = DurationField(
        least_seconds=10,
        required=False,
        label="How long",
        help_text=f"{EXAMPLE} It goes on by itself then. Empty: until a person resumes it.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    reason = forms.CharField(
        max_length=200,
        required=False,
        label="Why",
        help_text="Shown on the overview.",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    field_order = ("reason", "lasts")

    def ends(self) -> datetime | None:
        """When it goes on by itself; None when a person has to resume it. Only of a valid form."""
        return None if self.cleaned_data["lasts"] is None else self.until()
