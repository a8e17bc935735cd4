"""Form fields for the properties and secrets of an endpoint type, made of their declarations."""

from collections.abc import Mapping
from typing import Any, Final

from crispy_forms.layout import Div, Fieldset
from django import forms
from django.core.exceptions import ValidationError

from console.forms.secrets import SecretInput, SecretText, guard, kept
from integration.endpoints.declared import (
    MAX_CHARACTERS,
    Declared,
    Properties,
    Shape,
    counts,
    declarations,
    default_of,
    lines_of,
    pairs_of,
)
from integration.endpoints.registry import functions
from integration.selectors.setup.endpoints import provider_names

# The property that names a function of an installed app.
FUNCTION: Final = "function"
# The one that names a cluster.
PROVIDER: Final = "provider"
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


def fields_of(
    properties_class: type[Properties], stored: Mapping[str, str]
) -> dict[str, forms.Field]:
    """A field for each property and secret; one to remove each secret that is stored."""
    fields: dict[str, forms.Field] = {}
    for name, declared in declarations(properties_class).items():
        if declared.is_secret:
            fields[name] = _secret(declared)
            guard(fields, name, is_stored=name in stored)
        else:
            fields[name] = _field(name, declared)
    return fields


def parts_of(properties_class: type[Properties], fields: Mapping[str, Any]) -> list[Fieldset]:
    """The parts of a type, with what counts only beside another field marked as such."""
    known = declarations(properties_class)
    return [
        Fieldset(title, *(_laid(name, known[name], fields) for name in names))
        for title, names in properties_class.parts
    ]


def _laid(name: str, declared: Declared, fields: Mapping[str, Any]) -> Div:
    names = [one for one in (name, f"remove_{name}") if one in fields]
    if declared.only is None:
        return Div(*names)
    # The style sheet shows them while their choice is made; without it they are all there.
    other, values = declared.only
    marks = " ".join(f"only-{other}-{value}" for value in values)
    return Div(*names, css_class=f"only {marks}")


def initial_of(properties_class: type[Properties], properties: Mapping[str, Any]) -> dict[str, Any]:
    """The initial values of the fields: the stored ones, and defaults where none is stored."""
    return {
        name: _plain(properties.get(name, default_of(properties_class, name)))
        for name, declared in declarations(properties_class).items()
        if not declared.is_secret
    }


def _plain(value: Any) -> Any:
    """5 seconds are 5, and not 5.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def properties_in(properties_class: type[Properties], cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """The properties that a form says: those that count beside the others and were chosen.

    What is as it comes is not stored, so that only choices are seen in the history.
    """
    return {
        name: cleaned[name]
        for name, declared in declarations(properties_class).items()
        if not declared.is_secret
        and counts(declared, properties_class, cleaned)
        and cleaned.get(name) not in (None, "", [], {}, default_of(properties_class, name))
    }


def secrets_in(
    properties_class: type[Properties], cleaned: Mapping[str, Any], stored: Mapping[str, str]
) -> dict[str, str]:
    """The secrets after a form: entered anew, kept, or gone with what they were for."""
    return {
        name: value
        for name, declared in declarations(properties_class).items()
        if declared.is_secret
        and counts(declared, properties_class, cleaned)
        and (value := kept(name, cleaned, stored.get(name)))
    }


def _field(name: str, declared: Declared) -> forms.Field:
    field: type[forms.Field] = forms.CharField
    given: dict[str, Any] = {}
    match declared.shape:
        case Shape.PAIRS:
            field, given = PairLines, {"sign": SIGNS.get(name, "=")}
        case Shape.NAMES:
            field, given = Names, {"widget": forms.TextInput(attrs=dict(PLAIN))}
        case Shape.PEM:
            given = {"widget": forms.Textarea(attrs=dict(LINES))}
        case Shape.CHOICE:
            field, given = forms.ChoiceField, {"choices": declared.choices}
        case Shape.FLAG:
            field = forms.BooleanField
        case Shape.TEXT if name == PROVIDER:
            field, given = forms.ChoiceField, {"choices": _providers}
        case Shape.NUMBER:
            field = forms.IntegerField if declared.is_whole else forms.FloatField
            given = {"min_value": declared.least, "max_value": declared.most}
        case _:
            most = 200 if name == FUNCTION else MAX_CHARACTERS
            given = {"max_length": most, "widget": forms.TextInput(attrs=dict(PLAIN))}
    return field(
        label=f"{declared.label}*" if declared.is_needed else declared.label,
        help_text=f"{declared.help}{_installed() if name == FUNCTION else ''}",
        # What is needed depends on the others, so the properties are judged together; an empty
        # number is the one that it comes with.
        required=False,
        **given,
    )


def _providers() -> list[tuple[str, str]]:
    return [("", "Choose one"), *((name, name) for name in provider_names())]


def _installed() -> str:
    """The functions that are here; another one may be named, as its app may come later."""
    # The console and the workers have the same apps.
    names = ", ".join(functions)
    return f" Installed here: {names}." if names else " No function is installed here."


def _secret(declared: Declared) -> forms.Field:
    is_pem = declared.shape is Shape.PEM
    return forms.CharField(
        label=declared.label,
        required=False,
        widget=SecretText(attrs={**LINES, "rows": 3}) if is_pem else SecretInput(),
        help_text=f"{declared.help} Stored encrypted.".strip(),
    )
