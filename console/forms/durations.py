"""Form fields for durations: people write "5 min", the model gets seconds."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from integration import durations

EXAMPLE = "For example 10 s, 5 min, 2 h or 7 d."


class DurationField(forms.CharField):
    """Seconds as a number; shown as "5 min". An empty optional one is None."""

    def __init__(self, *, least_seconds: float = 0, **kwargs: Any) -> None:
        super().__init__(max_length=40, **kwargs)
        self.least_seconds = least_seconds

    def prepare_value(self, value: Any) -> Any:
        return durations.written(value) if isinstance(value, int | float) else value

    def clean(self, value: Any) -> float | None:
        text = super().clean(value)
        if not text:
            return None
        try:
            seconds = durations.read(text)
        except ValueError as mistake:
            raise ValidationError(str(mistake)) from mistake
        if seconds < self.least_seconds:
            least = durations.written(self.least_seconds)
            raise ValidationError(f"Enter at least {least}.")
        return seconds


class WholeSecondsField(DurationField):
    """As above, for columns that hold whole seconds."""

    def clean(self, value: Any) -> int | None:
        seconds = super().clean(value)
        return None if seconds is None else round(seconds)


class DurationListField(forms.CharField):
    """A list of seconds; shown as "10 s, 1 min, 5 min". Empty is the empty list."""

    def prepare_value(self, value: Any) -> Any:
        if isinstance(value, list):
            return ", ".join(durations.written(float(one)) for one in value)
        return value

    def clean(self, value: Any) -> list[float]:
        try:
            return durations.read_list(super().clean(value))
        except ValueError as mistake:
            raise ValidationError(str(mistake)) from mistake
