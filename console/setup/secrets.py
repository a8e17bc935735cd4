"""Secrets are written and never shown: an empty field keeps what is stored."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django import forms

from console.forms.setup_form import SetupForm

KEPT = "Empty keeps what is stored; it is never shown."


class SecretInput(forms.PasswordInput):
    """One line, shown as dots, never filled in."""

    def __init__(self) -> None:
        super().__init__(render_value=False, attrs={"autocomplete": "new-password"})


class SecretText(forms.Textarea):
    """Several lines, never filled in."""

    def format_value(self, value: object) -> None:  # noqa: ARG002 - what is stored stays unseen
        return None


class KeepsSecrets(SetupForm):
    """A form whose `secret_fields` keep the stored value when they come back empty."""

    secret_fields: ClassVar[Sequence[str]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stored = {name: getattr(self.instance, name, "") for name in self.secret_fields}
        for name, value in self._stored.items():
            field = self.fields[name]
            field.required = False
            if value:
                field.help_text = f"{field.help_text} A value is stored. {KEPT}"
                label = f"Remove the stored {field.label or name}".lower().capitalize()
                self.fields[f"remove_{name}"] = forms.BooleanField(required=False, label=label)
            else:
                field.help_text = f"{field.help_text} Nothing is stored."

    def kept_secrets(self) -> list[str]:
        """The secrets that are stored, and neither entered anew nor to be removed."""
        return [
            name
            for name, stored in self._stored.items()
            if stored and not self.data.get(name) and not self.data.get(f"remove_{name}")
        ]

    def clean(self) -> dict[str, Any] | None:
        found = super().clean()
        for name, stored in self._stored.items():
            if self.cleaned_data.get(f"remove_{name}"):
                self.cleaned_data[name] = ""
            elif not self.cleaned_data.get(name):
                self.cleaned_data[name] = stored
        return found
