"""Form fields for a cron task's parameters: one a parameter, of its type, with its help."""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final

from django import forms

from console.forms.secrets import SecretInput, guard, kept
from crontasks.parameters import LONGEST_TEXT, Described
from integration.sealed import is_sealed

PREFIX: Final = "parameter-"
TRUTHS: Final = (("", "Default"), ("true", "Yes"), ("false", "No"))


def name_of(one: Described) -> str:
    return f"{PREFIX}{one.name}"


def fields_of(described: Sequence[Described], stored: Mapping[str, Any]) -> dict[str, forms.Field]:
    """The fields by their name in the form, filled with what is stored or else the default."""
    fields: dict[str, forms.Field] = {}
    for one in described:
        fields[name_of(one)] = field = _field(one)
        field.label = one.label
        is_kept = one.is_secret and is_sealed(stored.get(one.name))
        field.help_text = one.text if is_kept else f"{one.text} {_usual(one)}".strip()
        if is_kept:
            guard(fields, name_of(one), is_stored=True)
        elif not one.is_secret:
            field.initial = _plain(stored.get(one.name, one.default))
    return fields


def values_of(
    described: Sequence[Described], cleaned: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, object]:
    """The parameters that differ from their defaults: those follow a later release.

    A secret left empty keeps what is stored.
    """
    values: dict[str, object] = {}
    for one in described:
        value = cleaned.get(name_of(one))
        if one.is_secret:
            value = kept(name_of(one), cleaned, stored.get(one.name)) or None
        elif one.plain is bool and isinstance(value, str):
            value = {"true": True, "false": False}.get(value)
        elif value in {None, ""} and one.plain is not str:
            value = None
        is_usual = value is None if one.is_required else value == _plain(one.default)
        if not is_usual and (value is not None or one.is_optional):
            values[one.name] = value
    return values


def _field(one: Described) -> forms.Field:
    needed = one.is_required and not one.is_optional
    if one.is_secret:
        return forms.CharField(
            required=needed, widget=SecretInput(), strip=False, max_length=LONGEST_TEXT
        )
    if issubclass(one.plain, Enum):
        members = [(str(member.value), str(member.value)) for member in one.plain]
        blank = [] if needed or one.default is not None else [("", "None")]
        return forms.ChoiceField(required=needed, choices=[*blank, *members])
    if one.plain is bool:
        return _truth(one, needed=needed)
    if one.plain is int:
        least, most = (None if n is None else int(n) for n in (one.least, one.most))
        return forms.IntegerField(required=needed, min_value=least, max_value=most)
    if one.plain is float:
        return forms.FloatField(required=needed, min_value=one.least, max_value=one.most)
    widget = forms.Textarea(attrs={"rows": 4, "class": "lines"}) if one.has_lines else None
    return forms.CharField(required=needed, max_length=LONGEST_TEXT, strip=False, widget=widget)


def _truth(one: Described, *, needed: bool) -> forms.Field:
    if isinstance(one.default, bool):
        return forms.BooleanField(required=False)
    offered = TRUTHS[1:] if needed else TRUTHS
    return forms.ChoiceField(required=needed, choices=offered)


def _usual(one: Described) -> str:
    """The sentence about the default."""
    if one.is_required:
        return "Required: it has no default."
    if one.is_secret:
        return "Stored encrypted; never shown."
    if one.default is None or one.default == "":
        return "Optional."
    if isinstance(one.default, bool):
        return "Default: on." if one.default else "Default: off."
    is_whole = isinstance(one.default, float) and one.default.is_integer()
    shown = f"{one.default:g}" if is_whole else str(_plain(one.default))
    # A sign alone would be taken for the sentence's own.
    is_word = any(sign.isalnum() for sign in shown)
    return f"Default: {shown}." if is_word else f"Default: “{shown}”."


def _plain(value: object) -> object:
    """As JSON and the form have it."""
    return value.value if isinstance(value, Enum) else value
