"""Form fields for the properties and secrets of a handler type, made of their declarations."""

from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.core.exceptions import ValidationError

from console.setup.secrets import KEPT, SecretInput, SecretText
from integration.endpoints.declared import (
    MAX_CHARACTERS,
    Declared,
    Shape,
    counts,
    declarations,
    default_of,
    lines_of,
    pairs_of,
)
from integration.endpoints.properties import KINDS
from integration.endpoints.registry import functions

# What stands between the two of a pair, by the property's name.
SIGNS: Final = {"headers": ":"}
LINES: Final = {"rows": 4, "class": "lines", "spellcheck": "false"}
PLAIN: Final = {"spellcheck": "false", "autocomplete": "off"}


class PairLines(forms.CharField):
    """Pairs, one a line."""

    def __init__(self, sign: str, **given: Any) -> None:
        super().__init__(widget=forms.Textarea(attrs=dict(LINES)), **given)
        self.sign = sign

    def prepare_value(self, value: Any) -> Any:
        return lines_of(value, self.sign) if isinstance(value, Mapping) else value

    def to_python(self, value: Any) -> Any:
        try:
            return pairs_of(super().to_python(value) or "", self.sign)
        except ValueError as problem:
            raise ValidationError(str(problem)) from problem

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.prepare_value(initial or {}) != (data or ""))


class Names(forms.CharField):
    """Names, separated by commas."""

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [one.strip() for one in (super().to_python(value) or "").split(",") if one.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool(self.prepare_value(initial or []) != (data or ""))


def fields_of(handler_type: str, stored: Mapping[str, str]) -> dict[str, forms.Field]:
    """A field for each property and secret; one to remove each secret that is stored."""
    found: dict[str, forms.Field] = {}
    for name, declared in declarations(KINDS[handler_type]).items():
        if not declared.is_secret:
            found[name] = _field(handler_type, name, declared)
            continue
        found[name] = _secret(declared, is_stored=name in stored)
        if name in stored:
            label = f"Remove the stored {declared.label}".lower().capitalize()
            found[f"remove_{name}"] = forms.BooleanField(required=False, label=label)
    return found


def initial_of(handler_type: str, properties: Mapping[str, Any]) -> dict[str, Any]:
    """What the fields begin with: the stored values, and what counts where none is stored."""
    kind = KINDS[handler_type]
    return {
        name: _plain(properties.get(name, default_of(kind, name)))
        for name, declared in declarations(kind).items()
        if not declared.is_secret
    }


def _plain(value: Any) -> Any:
    """5 seconds are 5, and not 5.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def properties_in(handler_type: str, cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that a form says: those that count beside the others and were chosen.

    What is as it comes is not stored, so that only choices are seen in the history.
    """
    kind = KINDS[handler_type]
    known = declarations(kind)
    return {
        name: cleaned[name]
        for name, declared in known.items()
        if not declared.is_secret
        and counts(declared, kind, cleaned)
        and cleaned.get(name) not in (None, "", [], {}, default_of(kind, name))
    }


def secrets_in(
    handler_type: str, cleaned: Mapping[str, Any], stored: Mapping[str, str]
) -> dict[str, str]:
    """The secrets after a form: entered anew, kept, or gone with what they were for."""
    kind = KINDS[handler_type]
    found: dict[str, str] = {}
    for name, declared in declarations(kind).items():
        if not declared.is_secret or not counts(declared, kind, cleaned):
            continue
        value = cleaned.get(name) or ("" if cleaned.get(f"remove_{name}") else stored.get(name))
        if value:
            found[name] = value
    return found


def _field(handler_type: str, name: str, declared: Declared) -> forms.Field:
    told: dict[str, Any] = {
        "label": f"{declared.label}*" if declared.is_needed else declared.label,
        "help_text": declared.help,
        # What is needed depends on the others, so the properties are judged together; an empty
        # number is the one that it comes with.
        "required": False,
    }
    if declared.shape in {Shape.PAIRS, Shape.NAMES, Shape.PEM}:
        return _of_many(name, declared, told)
    match declared.shape:
        case Shape.CHOICE:
            return forms.ChoiceField(choices=declared.choices, **told)
        case Shape.FLAG:
            return forms.BooleanField(**told)
        case Shape.NUMBER:
            return _number(declared, told)
        case _ if handler_type == "python" and name == "function":
            return _function(told)
        case _:
            text = forms.TextInput(attrs=dict(PLAIN))
            return forms.CharField(max_length=MAX_CHARACTERS, widget=text, **told)


def _of_many(name: str, declared: Declared, told: dict[str, Any]) -> forms.Field:
    """What has several lines, or several names."""
    if declared.shape is Shape.PAIRS:
        return PairLines(SIGNS.get(name, "="), **told)
    if declared.shape is Shape.NAMES:
        return Names(widget=forms.TextInput(attrs=dict(PLAIN)), **told)
    return forms.CharField(widget=forms.Textarea(attrs=dict(LINES)), **told)


def _number(declared: Declared, told: dict[str, Any]) -> forms.Field:
    least, most = declared.least, declared.most
    if declared.is_whole:
        return forms.IntegerField(min_value=int(least), max_value=int(most), **told)
    return forms.FloatField(min_value=least, max_value=most, **told)


def _function(told: dict[str, Any]) -> forms.Field:
    """By its name, so that an app may be installed later."""
    known = list(functions)
    # The console and the workers have the same apps.
    listed = f" Installed here: {', '.join(known)}." if known else " None is installed here."
    field = {**told, "help_text": f"{told['help_text']}{listed}"}
    return forms.CharField(max_length=200, widget=forms.TextInput(attrs=dict(PLAIN)), **field)


def _secret(declared: Declared, *, is_stored: bool) -> forms.Field:
    state = f"A value is stored. {KEPT}" if is_stored else "Nothing is stored."
    is_pem = declared.shape is Shape.PEM
    return forms.CharField(
        label=declared.label,
        required=False,
        widget=SecretText(attrs={**LINES, "rows": 3}) if is_pem else SecretInput(),
        help_text=f"{declared.help} Stored encrypted. {state}".strip(),
    )
