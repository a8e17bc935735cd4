"""The form that pauses a queue."""

from datetime import datetime

from django import forms

from console.delivering import forms as delivering
from console.forms.durations import EXAMPLE, DurationField


class PauseForm(delivering.PauseForm):
    """The reason and length of a pause; without a length it lasts until a person resumes."""

    lasts = DurationField(
        least_seconds=10,
        required=False,
        label="How long",
        help_text=f"{EXAMPLE} Afterwards it continues by itself. Empty: until a person resumes it.",
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
        """The end of the pause; None until a person resumes the queue. Only of a valid form."""
        return None if self.cleaned_data["lasts"] is None else self.until()
