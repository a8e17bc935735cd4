"""Secrets are written and never shown: an empty field keeps what is stored."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django import forms

from console.forms.setup_form import SetupForm


class SecretInput(forms.PasswordInput):
    """One line, shown as dots, never filled in."""

    def __init__(self) -> None:
        super().__init__(render_value=False, attrs={"autocomplete": "new-password"})


class SecretText(forms.Textarea):
    """Several lines, never filled in."""

    def format_value(self, value: object) -> None:  # noqa: ARG002 - what is stored stays unseen
        return None


def guard(fields: dict[str, forms.Field], name: str, *, is_stored: bool) -> None:
    """Make a field one that keeps what is stored; beside it comes one to remove that."""
    field = fields[name]
    field.required = field.required and not is_stored
    state = "Nothing is stored."
    if is_stored:
        state = "A value is stored and never shown. Leave the field empty to keep it."
        label = f"Remove the stored {field.label or name}".lower().capitalize()
        fields[f"remove_{name}"] = forms.BooleanField(required=False, label=label)
    field.help_text = f"{field.help_text} {state}".strip()


def kept(name: str, entered: Mapping[str, Any], stored: object) -> Any:
    """The secret after a form: removed, entered anew, or still the stored one."""
    return "" if entered.get(f"remove_{name}") else entered.get(name) or stored


class KeepsSecrets(SetupForm):
    """A form whose `secret_fields` keep the stored value when they come back empty."""

    secret_fields: ClassVar[Sequence[str]] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._stored = {name: getattr(self.instance, name, "") for name in self.secret_fields}
        for name, value in self._stored.items():
            guard(self.fields, name, is_stored=bool(value))

    def kept_secrets(self) -> list[str]:
        """The secrets that are stored, and neither entered anew nor to be removed."""
        return [
            name
            for name, stored in self._stored.items()
            if stored and not self.data.get(name) and not self.data.get(f"remove_{name}")
        ]

    def clean(self) -> dict[str, Any] | None:
        cleaned = super().clean()
        for name, stored in self._stored.items():
            self.cleaned_data[name] = kept(name, self.cleaned_data, stored)
        return cleaned
