"""Secrets are written and never shown: an empty field keeps what is stored."""

from collections.abc import Sequence
from typing import Any

from django import forms

KEPT = "Empty keeps what is stored; it is never shown."


class SecretInput(forms.PasswordInput):
    """One line, shown as dots, never filled in."""

    def __init__(self) -> None:
        super().__init__(render_value=False, attrs={"autocomplete": "new-password", "size": 60})


class SecretText(forms.Textarea):
    """Several lines, never filled in."""

    def format_value(self, value: object) -> None:  # noqa: ARG002 - what is stored stays unseen
        return None


class KeepsSecrets(forms.ModelForm):  # type: ignore[type-arg] # subclasses name their model
    """A form whose `secret_fields` keep the stored value when they come back empty."""

    secret_fields: Sequence[str] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Django's signature
        super().__init__(*args, **kwargs)
        for name in self.secret_fields:
            field = self.fields[name]
            field.required = False
            is_set = bool(getattr(self.instance, name, ""))
            field.help_text = f"{'A value is stored.' if is_set else 'Nothing is stored.'} {KEPT}"
            if is_set:
                label = f"Remove the stored {field.label or name}".lower().capitalize()
                self.fields[f"remove_{name}"] = forms.BooleanField(required=False, label=label)

    def clean(self) -> dict[str, Any] | None:
        found = super().clean()
        for name in self.secret_fields:
            if self.cleaned_data.get(f"remove_{name}"):
                self.cleaned_data[name] = ""
            elif not self.cleaned_data.get(name):
                self.cleaned_data[name] = self.initial.get(name) or ""
        return found
